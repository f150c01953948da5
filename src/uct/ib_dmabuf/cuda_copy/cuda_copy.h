// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <uct/ib_dmabuf/ucx/types.h>

namespace ucx_ib_dmabuf {

class library;
class ucx_instance;
struct uct_component_t;

// Detects and copies GPU memory for a UCX without CUDA. Never destroyed.
// Thread-safe. Called with no lock held, except that UCX may hold its own
// during begin().
class cuda_copy_ops {
public:
    struct found {
        ucs_memory_type_t type;
        uintptr_t base; // of the allocation, if known
        size_t length;
        bool lasts = false; // its release is announced: caches may keep it
        int gpu    = -1;    // the driver's ordinal, if known
    };
    // ucs_sys_bus_id_t
    struct pci_address {
        uint16_t domain;
        uint8_t bus;
        uint8_t slot;
        uint8_t function;
    };

    // Whether there may be a GPU. Called first; never initializes the driver.
    virtual bool has_gpu() noexcept = 0;
    // Announces all GPU memory, existing and future, to the memory type cache
    // of the calling UCX instance. Returns false if some GPU memory may remain
    // unseen: then an address outside the cache need not be host memory.
    virtual bool begin() noexcept = 0;
    // Returns UCS_ERR_INVALID_ADDR if the range is not GPU memory.
    virtual ucs_status_t detect(uintptr_t address, size_t length,
                                found *out) noexcept = 0;
    // Whether the GPU memory at an address can be registered.
    virtual bool is_exportable(uintptr_t address) noexcept = 0;
    // Returns false if the PCI address is not known.
    virtual bool place(int gpu, pci_address *out) noexcept = 0;
    // Returns when the bytes are copied. Either address may be host memory;
    // `gpu` is the one more likely to be GPU memory. Logs failures.
    virtual ucs_status_t copy(void *to, const void *from, size_t length,
                              const void *gpu) noexcept = 0;

protected:
    ~cuda_copy_ops() = default;
};

// Whether a UCX instance has CUDA: a registered component, a module beside
// libuct_ib that loads, or one that UCX_MODULES may exclude.
bool has_cuda_module(const library &uct_ib);

// Returns nullptr if UCX has none.
uct_component_t *find_component(const library &uct_ib, std::string_view name);

// Lets `user` say which memory can be registered, in place of the exports that
// this UCX's own cuda_copy tries. Returns false if it has none that can be
// changed. Thread-safe.
bool correct_cuda_copy(const library &uct_ib, cuda_copy_ops &user);

// Returns nullptr without libcuda, which may be loaded later.
cuda_copy_ops *find_cuda_copy_ops();

// Registers a cuda_copy component with a UCX without CUDA as soon as libcuda
// can be opened, or corrects UCX's own. Does nothing the next time.
// Thread-safe.
void offer_cuda_copy(ucx_instance &to);

} // namespace ucx_ib_dmabuf
