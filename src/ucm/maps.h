// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace ucx_ib_dmabuf::ucm {

// Calls see(begin, end, rest) for each mapping of the process, in order; `rest`
// is the line of /proc/self/maps behind the addresses. Does not use scanf(),
// which takes longer than the kernel does.
template <class See>
void each_mapping(See &&see)
{
    const std::unique_ptr<FILE, int (*)(FILE *)> maps(
        fopen("/proc/self/maps", "re"), fclose);
    char line[512];

    while (maps && (fgets(line, sizeof(line), maps.get()) != nullptr)) {
        char *at              = line;
        const uintptr_t begin = strtoull(at, &at, 16);
        const uintptr_t end   = (*at == '-') ? strtoull(at + 1, &at, 16) : 0;
        if (begin < end) {
            see(begin, end, at);
        }
    }
}

} // namespace ucx_ib_dmabuf::ucm
