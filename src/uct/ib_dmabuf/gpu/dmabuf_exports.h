// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "exporter.h"
#include <chrono>
#include <thread>

namespace ucx_ib_dmabuf {

// The exports of a range while NICs register it: one for each mapping, shared
// by all NICs. Closes the descriptors, in a forked child also those of other
// threads: a descriptor that stays open keeps the memory allocated.
class dmabuf_exports final : public dmabuf_source {
public:
    // Exports begin `before` bytes ahead of the range (exporter::before).
    dmabuf_exports(exporter &memory, uintptr_t address, size_t length,
                   size_t before = 0)
        : dmabuf_source(before), memory_(memory), address_(address - before),
          length_(length + before)
    {
    }
    ~dmabuf_exports()
    {
        drop(mapping_type::standard);
        drop(mapping_type::pcie);
    }
    dmabuf_exports(const dmabuf_exports &)            = delete;
    dmabuf_exports &operator=(const dmabuf_exports &) = delete;

    ucs_status_t get(mapping_type how, int *fd) override;
    void drop(mapping_type how) noexcept override;

    // The number of exports.
    unsigned made() const { return made_; }
    // Whether the memory cannot be exported.
    bool failed() const { return all_[0].status != UCS_OK; }

private:
    struct slot;
    struct dmabuf {
        int fd              = -1; // none
        slot *record        = nullptr;
        ucs_status_t status = UCS_OK; // of the latest attempt
    };

    static slot *remember(int fd) noexcept;
    static void note() noexcept;
    static void close_in_child() noexcept;
    dmabuf &of(mapping_type how) { return all_[static_cast<unsigned>(how)]; }

    exporter &memory_;
    const uintptr_t address_;
    const size_t length_;
    unsigned made_ = 0;
    dmabuf all_[2];

    static slot slots_[];
};

// Registers by `call` until that succeeds, at most a few times more than once,
// after a pause of milliseconds each.
template <class Call>
ucs_status_t persist(Call call)
{
    constexpr int more_attempts = 3;
    std::chrono::milliseconds pause{1};
    ucs_status_t status = call();

    for (int i = 0; i < more_attempts && status != UCS_OK; ++i) {
        std::this_thread::sleep_for(pause);
        pause *= 2;
        status = call();
    }
    return status;
}

} // namespace ucx_ib_dmabuf
