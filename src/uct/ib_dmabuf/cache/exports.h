// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_EXPORTS_H_
#define UCX_IB_DMABUF_CACHE_EXPORTS_H_

#include "provider.h"
#include <sys/stat.h>
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
    ~exports() { drop_all(); }
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
            if (one.exported) {
                one.which = file_of(one.fd);
                ++made_;
            }
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
    void drop_all() noexcept
    {
        drop(mapping_type::standard);
        drop(mapping_type::pcie);
    }

    // In the child of a fork, of what another thread of the parent's has here:
    // open for good, it would keep the memory. A fork copies the descriptors
    // before the memory, so a number may be another file's there, and what was
    // dropped open still.
    void forget() noexcept
    {
        for (dmabuf &one : all_) {
            if ((one.fd >= 0) && file_of(one.fd) == one.which) {
                close(one.fd);
            }
            one.exported = false;
        }
    }

    // How many there were.
    unsigned made() const { return made_; }
    // Whether the memory cannot be exported.
    bool failed() const { return all_[0].status != UCS_OK; }

private:
    struct file {
        dev_t device                        = 0;
        ino_t number                        = 0; // of a dma-buf its own
        bool operator==(const file &) const = default;
    };
    struct dmabuf {
        bool exported       = false;
        int fd              = -1;
        ucs_status_t status = UCS_OK; // of the last time
        file which;
    };

    static file file_of(int fd)
    {
        struct stat found;
        return (fd >= 0 && fstat(fd, &found) == 0)
                   ? file{found.st_dev, found.st_ino}
                   : file{};
    }

    dmabuf &of(mapping_type how) { return all_[static_cast<unsigned>(how)]; }

    exporter &memory_;
    const uintptr_t address_;
    const size_t length_;
    unsigned made_ = 0;
    dmabuf all_[2];
};

} // namespace ucx_ib_dmabuf

#endif
