// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ucx_ib_dmabuf::info {

// Returns a list's parts between any of these characters, without empty ones.
std::vector<std::string> split(std::string list, const char *between);

// A device's place; empty and -1 if unknown, as for a NIC in software.
struct pci_place {
    std::string path; // "/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    int numa = -1;
    std::vector<std::string> route{}; // "pci0000:00", "0000:00:01.0", ...
};

// The kernel's files, /proc and /sys; tests have another root.
class tree {
public:
    explicit tree(std::string root = {}) : root_(std::move(root)) {}

    bool has(std::string_view path) const;
    // Empty if the file cannot be read.
    std::string read(std::string_view path) const;
    // The first line that has this beginning, without it and the newline; empty
    // if there is none.
    std::string line(std::string_view path, std::string_view begin = "") const;
    // Names in a folder.
    std::vector<std::string> list(std::string_view path) const;
    // Takes a device's folder, which may be a link.
    pci_place place(std::string_view device) const;

private:
    std::string at(std::string_view path) const
    {
        return root_ + std::string(path);
    }

    const std::string root_;
};

} // namespace ucx_ib_dmabuf::info
