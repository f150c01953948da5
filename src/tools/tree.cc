// SPDX-License-Identifier: BSD-3-Clause
#include "tree.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace ucx_ib_dmabuf::info {

namespace fs = std::filesystem;

std::vector<std::string> split(std::string list, const char *between)
{
    std::vector<std::string> parts;

    for (char *rest = list.data(); rest != nullptr;) {
        const std::string part = strsep(&rest, between);
        if (!part.empty()) {
            parts.push_back(part);
        }
    }
    return parts;
}

bool tree::has(std::string_view path) const
{
    std::error_code error;
    return fs::exists(at(path), error);
}

std::string tree::first_line(std::string_view path) const
{
    std::ifstream in(at(path));
    std::string line;

    std::getline(in, line);
    return line;
}

std::string tree::all_of(std::string_view path) const
{
    std::ifstream in(at(path), std::ios::binary);
    std::ostringstream all;

    all << in.rdbuf(); // fails half-way for some sleeping devices
    return all.str();
}

std::vector<std::string> tree::list(std::string_view path) const
{
    std::vector<std::string> names;
    std::error_code error;

    for (fs::directory_iterator it(at(path), error), end; !error && (it != end);
         it.increment(error)) {
        names.push_back(it->path().filename());
    }
    std::ranges::sort(names);
    return names;
}

std::string tree::target(std::string_view link) const
{
    std::error_code error;
    const fs::path found = fs::canonical(at(link), error);

    return error ? std::string() : found.filename().native();
}

pci_place tree::place(std::string_view device) const
{
    std::error_code error;
    const fs::path sys   = fs::canonical(at("/sys"), error);
    const fs::path found = fs::canonical(at(device), error);
    pci_place result;

    if (error || !found.native().starts_with(sys.native() + "/devices/pci")) {
        return result;
    }
    result.path            = found.native().substr(sys.native().size());
    const std::string numa = first_line("/sys" + result.path + "/numa_node");
    result.numa            = numa.empty() ? -1 : atoi(numa.c_str());
    return result;
}

} // namespace ucx_ib_dmabuf::info
