// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cache/provider.h"
#include <atomic>
#include <memory>
#include <string>

namespace ucx_ib_dmabuf {

// A vendor's GPUs of this machine: all that md/ knows of them. What is at an
// address and its export are the exporter's part, which is the cache's. Its
// describe() finds all device memory, also what export_range() then refuses,
// and says UCS_ERR_NO_ELEM of all else, managed memory too: that is uct_ib's.
//
// Thread-safe; called without any lock held. Nothing needs a current context,
// nothing waits for a kernel. test/gtest/contract has what each has to keep,
// and a second one beside CUDA's.
class gpu_vendor : public exporter {
public:
    // Told what happens to memory, in the thread in which it happens. None
    // may call the vendor's driver.
    class listener {
    public:
        // Before the driver releases memory that may be in the range, or when
        // it is new there; [0, SIZE_MAX): all of it. Also of memory that was
        // never registered.
        virtual void on_change(uintptr_t address, size_t length) noexcept = 0;
        // The same where all of the range is surely going, and the program has
        // nothing under way in it.
        virtual void on_release(uintptr_t address, size_t length) noexcept
        {
            on_change(address, length);
        }
        // From now on memory may go unseen. At any time, more than once.
        virtual void on_events_missed(const char *why) noexcept = 0;
        // The driver has no memory left for an allocation. Whether it is worth
        // asking once more: what was released may have been registered still.
        // May wait.
        virtual bool on_out_of_memory() noexcept = 0;

    protected:
        ~listener() = default;
    };

    // For messages: "CUDA".
    virtual const char *name() const noexcept = 0;
    // The type that UCX takes device memory for.
    virtual ucs_memory_type_t memory_type() const noexcept = 0;

    // False only if the range is surely not device memory. Calls no driver.
    virtual bool may_be_device(uintptr_t address,
                               size_t length) const noexcept = 0;

    // How many bytes of the GPU (extent::device) may be registered at a time,
    // over all NICs; SIZE_MAX if that is not limited, or not known.
    virtual size_t max_registered(int device) = 0;

    // A little memory of a GPU, whole pages; given back with this.
    struct piece {
        uintptr_t address = 0;
        size_t length     = 0;

        virtual ~piece() = default;
    };
    // How many GPUs there may be pieces of: 0 to this, as extent::device.
    virtual int gpu_count() { return 0; }
    // To try what can be done with the GPU's memory. Null if the GPU is not in
    // use yet, as nothing is begun there for it, or has no memory left.
    virtual std::unique_ptr<piece> allocate_piece(int) { return nullptr; }

    // Copy, and return when the bytes are there. Failures are logged.
    virtual ucs_status_t copy_to_host(void *host, uintptr_t device,
                                      size_t length)   = 0;
    virtual ucs_status_t copy_from_host(uintptr_t device, const void *host,
                                        size_t length) = 0;

    // Tells the listener, the only one, from now on and for good.
    virtual void watch(listener &told) noexcept = 0;
    // Whether ways to release memory may have come up since, which
    // refresh_events() looks for: where memory is registered, before anything
    // else. Always the same variable: a call would cost a good part of a hit.
    virtual const std::atomic<bool> &events_need_refresh() const noexcept
    {
        static constinit const std::atomic<bool> never{false};
        return never;
    }
    virtual void refresh_events() noexcept {}
};

// Finds a vendor's GPUs. Null if there is none that exports its memory, which
// is reported where it is no matter of course. May throw std::bad_alloc.
using find_gpus = std::unique_ptr<gpu_vendor> (*)();

} // namespace ucx_ib_dmabuf
