// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "exporter.h"
#include <memory>
#include <string>
#include <vector>

namespace ucx_ib_dmabuf {

// A vendor's GPUs in this machine. describe() finds all device memory, even if
// export_range() then refuses it. It returns UCS_ERR_NO_ELEM for any other
// memory, also managed memory: uct_ib registers that.
//
// Thread-safe; called with no lock held. Functions need no current context and
// wait for no kernel. test/gtest/contract tests these promises for CUDA's, and
// test/gtest/md/test_vendor.cc the domain with another vendor.
class gpu_vendor : public exporter {
public:
    // Notified of changes, in the thread that makes them. Must not call the
    // vendor's driver.
    class listener {
    public:
        // Before the driver releases memory that may be in the range, or when
        // memory is new there. [0, SIZE_MAX) is all memory. Also for memory
        // that was never registered.
        virtual void on_change(uintptr_t address, size_t length) noexcept = 0;
        // The same if the whole range is surely released, and the program has
        // no operation in progress in it.
        virtual void on_release(uintptr_t address, size_t length) noexcept
        {
            on_change(address, length);
        }
        // Memory that describe_whole() knows is new there. Called after
        // on_change(), and once.
        virtual void on_allocation(uintptr_t, size_t) noexcept {}
        // A context may end in the driver's call that follows. Returns when
        // the plug-in's threads have left the driver.
        virtual void on_context_end() noexcept {}
        // From now on changes may be missed. At any time, more than once.
        virtual void on_events_missed(const char *why) noexcept = 0;
        // The driver has no memory left for an allocation. Returns whether a
        // retry is worthwhile, as released memory may still have been
        // registered. May wait.
        virtual bool on_out_of_memory() noexcept = 0;

    protected:
        ~listener() = default;
    };

    // For messages: "CUDA".
    virtual const char *name() const noexcept = 0;
    // UCX's memory type for device memory.
    virtual ucs_memory_type_t memory_type() const noexcept = 0;

    // Returns false only if it is surely not device memory. Calls no driver.
    virtual bool may_be_device(uintptr_t address,
                               size_t length) const noexcept = 0;

    // How many bytes of the GPU (allocation::device) may be registered at a
    // time, over all NICs; SIZE_MAX if unlimited or unknown.
    virtual size_t max_registered(int device) = 0;

    // A little memory of a GPU, whole pages; freed with this object.
    struct probe_buffer {
        uintptr_t address = 0;
        size_t length     = 0;

        virtual ~probe_buffer() = default;
    };
    // The GPUs (allocation::device) that the process uses. Others have no probe
    // buffers.
    virtual std::vector<int> gpus_in_use() { return {}; }
    // Allocates memory to test paths with. Returns nullptr if the GPU is not in
    // use, as this must not initialise it, or if it has no memory left.
    virtual std::unique_ptr<probe_buffer> allocate_probe_buffer(int)
    {
        return nullptr;
    }

    // These copy, and return when the bytes have arrived. Failures are logged.
    virtual ucs_status_t copy_to_host(void *host, uintptr_t device,
                                      size_t length)   = 0;
    virtual ucs_status_t copy_from_host(uintptr_t device, const void *host,
                                        size_t length) = 0;

    // Notifies the listener, the only one, from now on and permanently.
    virtual void watch(listener &told) noexcept = 0;
};

// Finds a vendor's GPUs. Returns nullptr if none exports its memory, and
// reports that unless it is to be expected. May throw std::bad_alloc.
using vendor_finder = std::unique_ptr<gpu_vendor> (*)();

} // namespace ucx_ib_dmabuf
