// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "findings.h"
#include <string>
#include <string_view>
#include <vector>

namespace ucx_ib_dmabuf::info {

// Parts of a list between any of these characters, none of them empty.
std::vector<std::string> split(std::string list, const char *between);

// The kernel's files, /proc and /sys; below another root in tests.
class tree {
public:
    explicit tree(std::string root = {}) : root_(std::move(root)) {}

    std::string at(std::string_view path) const
    {
        return root_ + std::string(path);
    }
    bool has(std::string_view path) const;
    // Without its end; empty if there is none that can be read.
    std::string first_line(std::string_view path) const;
    std::string all_of(std::string_view path) const;
    // Names in a folder, in order.
    std::vector<std::string> list(std::string_view path) const;
    // The last name of what a link leads to; empty if there is none.
    std::string target(std::string_view link) const;
    // Of a device's folder, which may be a link.
    pci_place place(std::string_view device) const;

private:
    std::string root_;
};

} // namespace ucx_ib_dmabuf::info
