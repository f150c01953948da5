// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <uct/ib_dmabuf/report.h>

namespace ucx_ib_dmabuf::info {

namespace fs = std::filesystem;

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return (value == nullptr) ? "" : value;
}

std::string size_text(uint64_t bytes)
{
    constexpr const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    auto number                   = static_cast<double>(bytes);
    unsigned unit                 = 0;

    for (; (number >= 1024) && (unit < 4); ++unit) {
        number /= 1024;
    }
    return format("%.4g %s", number, units[unit]).c_str();
}

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

std::string tree::read(std::string_view path) const
{
    std::ifstream in(at(path), std::ios::binary);
    std::ostringstream all;

    all << in.rdbuf(); // fails half-way for some sleeping devices
    return all.str();
}

std::string tree::line(std::string_view path, std::string_view begin) const
{
    std::ifstream in(at(path));
    std::string line;

    while (std::getline(in, line)) {
        if (line.starts_with(begin)) {
            return line.substr(begin.size());
        }
    }
    return "";
}

std::vector<std::string> tree::list(std::string_view path) const
{
    std::vector<std::string> names;
    std::error_code error;

    for (fs::directory_iterator it(at(path), error), end; !error && (it != end);
         it.increment(error)) {
        names.push_back(it->path().filename());
    }
    return names;
}

pci_place tree::place(std::string_view device) const
{
    std::error_code error;
    const std::string sys   = fs::canonical(at("/sys"), error);
    const std::string found = fs::canonical(at(device), error);

    if (error || !found.starts_with(sys + "/devices/pci")) {
        return {};
    }
    const std::string path = found.substr(sys.size());
    const std::string numa = line("/sys" + path + "/numa_node");
    return {path, numa.empty() ? -1 : atoi(numa.c_str()),
            split(path.substr(sizeof("/devices")), "/")};
}

} // namespace ucx_ib_dmabuf::info
