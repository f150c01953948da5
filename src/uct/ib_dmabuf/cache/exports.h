// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_EXPORTS_H_
#define UCX_IB_DMABUF_CACHE_EXPORTS_H_

#include "provider.h"
#include <unistd.h>

namespace ucx_ib_dmabuf {

// What a range is exported as while NICs register it: once for each mapping,
// however many want it. Closes the descriptors.
class exports final : public dmabuf_source {
public:
    exports(exporter &memory, uintptr_t address, size_t length)
        : memory_(memory), address_(address), length_(length)
    {
    }
    ~exports()
    {
        drop(mapping_type::standard);
        drop(mapping_type::pcie);
    }
    exports(const exports &)            = delete;
    exports &operator=(const exports &) = delete;

    ucs_status_t get(mapping_type how, int *fd) override
    {
        dmabuf &one = of(how);

        if (!one.exported) {
            one.status =
                (how == mapping_type::standard)
                    ? memory_.export_range(address_, length_, &one.fd)
                    : memory_.export_range_pcie(address_, length_, &one.fd);
            one.exported = one.status == UCS_OK;
            made_ += one.exported;
        }
        *fd = one.fd;
        return one.status;
    }
    void drop(mapping_type how) noexcept override
    {
        dmabuf &one = of(how);

        if (one.exported && (one.fd >= 0)) {
            close(one.fd);
        }
        one.exported = false;
    }

    // How many there were.
    unsigned made() const { return made_; }
    // Whether the memory cannot be exported.
    bool failed() const { return all_[0].status != UCS_OK; }

private:
    struct dmabuf {
        bool exported       = false;
        int fd              = -1;
        ucs_status_t status = UCS_OK; // of the last time
    };

    dmabuf &of(mapping_type how) { return all_[static_cast<unsigned>(how)]; }

    exporter &memory_;
    const uintptr_t address_;
    const size_t length_;
    unsigned made_ = 0;
    dmabuf all_[2];
};

} // namespace ucx_ib_dmabuf

#endif
