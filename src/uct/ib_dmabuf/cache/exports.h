// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "provider.h"
#include <mutex>

namespace ucx_ib_dmabuf {

// What a range is exported as while NICs register it: once for each mapping,
// however many want it. Closes the descriptors, those of other threads in the
// child of a fork as well: open for good, they would keep the memory.
class exports final : public dmabuf_source {
public:
    // Exports begin as many bytes before the range (exporter::before).
    exports(exporter &memory, uintptr_t address, size_t length,
            size_t before = 0);
    ~exports();
    exports(const exports &)            = delete;
    exports &operator=(const exports &) = delete;

    ucs_status_t get(mapping_type how, int *fd) override;
    void drop(mapping_type how) noexcept override;

    // How many there were.
    unsigned made() const { return made_; }
    // Whether the memory cannot be exported.
    bool failed() const { return all_[0].status != UCS_OK; }

private:
    struct dmabuf {
        bool exported       = false;
        int fd              = -1;
        ucs_status_t status = UCS_OK; // of the last time

        void close() noexcept;
    };

    static void in_child() noexcept;
    dmabuf &of(mapping_type how) { return all_[static_cast<unsigned>(how)]; }

    exporter &memory_;
    const uintptr_t address_;
    const size_t length_;
    unsigned made_ = 0;
    dmabuf all_[2];
    exports *next_;

    static std::mutex lock_; // of the list; a fork waits for it
    static exports *first_;
};

} // namespace ucx_ib_dmabuf
