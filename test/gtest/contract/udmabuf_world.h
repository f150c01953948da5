// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "udmabuf_vendor.h"
#include <cstring>
#include <sys/mman.h>

class udmabuf_world {
public:
    static std::string missing() { return udmabuf_vendor::missing(); }

    ucx_ib_dmabuf::exporter &subject() { return vendor_; }
    size_t segment() const { return 2 << 20; }
    void mistake() {}

    uintptr_t allocate(size_t size) { return vendor_.allocate(size); }
    uintptr_t neighbours(size_t size)
    {
        if (size % vendor_.granularity() != 0) {
            return 0; // its allocations are whole pages
        }
        const uintptr_t low = vendor_.allocate(size);
        vendor_.allocate(size);
        return low;
    }
    uintptr_t map(unsigned count) { return vendor_.allocate(segment(), count); }
    void remap(uintptr_t address) { vendor_.replace(address); }
    void release(uintptr_t address) { vendor_.release(address); }
    bool shows(int fd, uintptr_t address)
    {
        const int number  = ++last_;
        const size_t size = vendor_.granularity();
        void *seen        = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);

        memcpy(reinterpret_cast<void *>(address), &number, sizeof(number));
        const bool same = (seen != MAP_FAILED) &&
                          (memcmp(seen, &number, sizeof(number)) == 0);
        munmap(seen, size);
        return same;
    }

private:
    udmabuf_vendor vendor_;
    int last_ = 0;
};
