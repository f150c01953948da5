// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "loopback.h"
#include "path_table.h"
#include <functional>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>
#include <uct/ib_dmabuf/stats/counters.h>

namespace ucx_ib_dmabuf {

// Whether mlx5's driver reports Data Direct for the device.
bool has_data_direct(const protection_domain &pd);

// Imports dma-bufs into a protection domain.
class importer {
public:
    // Registers the dma-buf. Returns a handle, or nullptr and sets errno.
    virtual void *reg(int fd, size_t offset, uintptr_t address,
                      size_t length) = 0;
    virtual void dereg(void *handle) = 0;
    // The buffer that was registered at the address.
    virtual registered_buffer buffer_of(void *handle, uintptr_t address) = 0;

protected:
    ~importer() = default;
};

// A registered range of GPU memory.
struct registration : registered_buffer {
    size_t length = 0;       // in bytes
    void *handle  = nullptr; // the importer's
    pair_row *pair{};        // counters of the NIC and the GPU
    // For the owner's use.
    pid_t process      = 0;
    registration *next = nullptr;
};

// The registrations of GPU memory by one NIC: chooses the method, and has the
// path checked. Thread-safe; holds no lock over a call.
class reg_methods {
public:
    // Checks the path to a GPU's memory: in `probe`, which may be overwritten,
    // or else in memory of its own.
    using path_checker = std::function<check_result(
        int gpu, reg_method method, const registered_buffer *probe)>;
    // Bytes of GPU memory, exported on demand.
    struct request {
        dmabuf_exports &memory;
        int gpu;
        uintptr_t address; // aligned to pages
        size_t length;
        bool is_probe = false; // may be overwritten
    };

    // `tries_data_direct`: the importer uses Data Direct if the device has it.
    // Without a checker every path is trusted. May throw std::bad_alloc.
    reg_methods(const protection_domain &pd, bool tries_data_direct,
                importer &by, path_table &table, path_checker checker = {});

    const char *name() const { return paths_.name(); }
    bool has_broken() const { return paths_.has_broken(); }
    reg_method first(int gpu) const
    {
        return paths_.pair(gpu, preferred_).first.load().method;
    }

    // Whether that method has worked, and its path is proven or trusted.
    bool works(int gpu) const
    {
        nic_gpu_pair &pair      = paths_.pair(gpu, preferred_);
        const first_method last = pair.first;
        return last.has_worked() && (!checker_ || (pair.of(last.method).state ==
                                                   path_state::proven));
    }

    // Registers the memory under its own addresses; `made` is set on success
    // only. Logs a failure with its cause, once for each method and errno.
    // UCS_ERR_NO_MEMORY: no room. UCS_ERR_UNSUPPORTED: NIC and GPU do not work
    // together. UCS_ERR_BUSY: they may a moment later.
    ucs_status_t reg(const request &what, registration **made);
    void dereg(registration *made);

private:
    struct outcome {
        reg_method method;
        ucs_status_t status = UCS_OK;
        int error           = 0; // errno of the verb; 0 if none failed
        void *handle        = nullptr;
        path_state path     = path_state::untested;

        bool is_broken() const { return path == path_state::broken; }
    };

    outcome choose(const request &what);
    bool may_fall_back(first_method before, const outcome &failed) const;
    static void remember(nic_gpu_pair *pair, first_method before,
                         const outcome &first);
    outcome attempt(reg_method method, const request &what, bool has_worked);
    outcome attempt_checked(nic_gpu_pair *pair, reg_method method,
                            const request &what, bool has_worked);
    void report_chosen(int gpu, const outcome &first,
                       const outcome &chosen) const;
    void report(const request &what, const outcome &failed,
                bool is_replaced) const;

    importer &by_;
    const reg_method preferred_;
    nic_paths &paths_;
    const path_checker checker_;
};

// Registers a probe of each GPU's memory, unless the path is known to work, and
// has the path checked in it, as UCX has to know failures before it chooses a
// protocol. Returns false if the NIC cannot register the memory of any GPU that
// can be probed (logged); a GPU that is not in use cannot. `make_room`: returns
// whether there may be more room.
bool registers_gpu_memory(gpu_vendor &gpus, reg_methods &nic,
                          bool (*make_room)());

} // namespace ucx_ib_dmabuf
