// SPDX-License-Identifier: BSD-3-Clause
#include "files.h"
#include <filesystem>
#include <string>
#include <system_error>

namespace ucx_ib_dmabuf::test {
namespace {

size_t count_links(const char *prefix)
{
    size_t count = 0;
    std::error_code error;

    for (const auto &entry :
         std::filesystem::directory_iterator("/proc/self/fd", error)) {
        const auto target = std::filesystem::read_symlink(entry.path(), error);
        count += target.string().starts_with(prefix);
    }
    return count;
}

} // namespace

size_t count_files()
{
    return count_links("") - count_links("/memfd:cuda_sim");
}

size_t count_dmabuf_files()
{
    return count_links("/dmabuf:");
}

} // namespace ucx_ib_dmabuf::test
