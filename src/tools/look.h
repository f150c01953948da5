// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "findings.h"
#include "tree.h"
#include <cstdio>

namespace ucx_ib_dmabuf::info {

// Each examines a layer and adds its findings to the report, without changing
// the machine. Not thread-safe. May throw std::bad_alloc.

// machine.cc: the kernel, its settings, limits of this process.
void look_at_machine(const tree &files, report *out);
// environment.cc: how programs that are started here load the plug-in.
void look_at_environment(report *out);
// gpus.cc: the CUDA driver and its GPUs.
void look_at_gpus(const tree &files, report *out);
// nics.cc: libibverbs and its devices.
void look_at_nics(const tree &files, report *out);
// pairs.cc: the distances between GPUs and NICs. After all others.
void look_at_pairs(const tree &files, report *out);

// prove.cc: whether pairs work, by RDMA. After look_at_pairs().
void prove_pairs(report *out);
// copies.cc: the UCX that a program would load, or that a folder contains.
void look_at_copies(const std::string &path, report *out);

// text.cc, for people: parts, their checks, and a matrix of GPUs and NICs.
// Wraps causes and remedies at this width.
void print_text(const report &all, bool coloured, int width, FILE *to);
// json.cc, for programs; docs/info.md has the schema.
constexpr int schema_version = 1;
void print_json(const report &all, FILE *to);
extern const char version[]; // the package's

// "12.5 GiB"
std::string size_text(uint64_t bytes);

} // namespace ucx_ib_dmabuf::info
