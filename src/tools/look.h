// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "findings.h"
#include "tree.h"
#include <cstdio>

namespace ucx_ib_dmabuf::info {

// Each looks at a layer and adds what it finds to the report; nothing is
// changed on the machine. For one thread. They may throw std::bad_alloc.

// machine.cc: the kernel, its settings, limits of this process.
void look_at_machine(const tree &files, report *out);
// environment.cc: how programs that are started here come to the plug-in.
void look_at_environment(report *out);
// gpus.cc: the CUDA driver and its GPUs.
void look_at_gpus(const tree &files, report *out);
// nics.cc: libibverbs and its devices.
void look_at_nics(const tree &files, report *out);
// pairs.cc: how far apart they are. After all others.
void look_at_pairs(const tree &files, report *out);

// prove.cc: whether they work, by doing it. After that.
void prove_pairs(report *out);
// copies.cc: the copies of UCX of a program, or in a folder.
void look_at_copies(const std::string &path, report *out);

// text.cc, for people: parts, their checks, and a matrix of GPUs and NICs.
// Causes and remedies in lines of this width.
void print_text(const report &all, bool coloured, int width, FILE *to);
// json.cc, for programs; docs/info.md has the schema.
constexpr int schema_version = 1;
void print_json(const report &all, FILE *to);
extern const char version[]; // the package's

// "12.5 GiB"
std::string size_text(uint64_t bytes);

} // namespace ucx_ib_dmabuf::info
