// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "findings.h"
#include <string>
#include <string_view>
#include <vector>

namespace ucx_ib_dmabuf::info {

// Returns a list's parts between any of these characters, without empty ones.
std::vector<std::string> split(std::string list, const char *between);

// The kernel's files, /proc and /sys; tests have another root.
class tree {
public:
    explicit tree(std::string root = {}) : root_(std::move(root)) {}

    std::string at(std::string_view path) const
    {
        return root_ + std::string(path);
    }
    bool has(std::string_view path) const;
    // Without the newline; empty if the file cannot be read.
    std::string first_line(std::string_view path) const;
    std::string all_of(std::string_view path) const;
    // Names in a folder, sorted.
    std::vector<std::string> list(std::string_view path) const;
    // The last name of a link's target; empty if there is none.
    std::string target(std::string_view link) const;
    // Takes a device's folder, which may be a link.
    pci_place place(std::string_view device) const;

private:
    std::string root_;
};

} // namespace ucx_ib_dmabuf::info
