// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "ucm/completeness.h"
#include "ucm/module_owners.h"
#include "ucm/release.h"

/** The kinds of CUDA calls around modules and libraries, and their variables.
 */
namespace ucx_ib_dmabuf {

/** cuModuleGetGlobal, cuLibraryGetGlobal: memory that goes with its owner. */
struct GetGlobal {
    using Signature = CudaResult(uint64_t *, size_t *, uint64_t, const char *);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t *address, size_t *size,
                          uint64_t owner, const char *name)
    {
        const CudaResult result = driver(address, size, owner, name);
        if ((result == CUDA_OK) && (address != nullptr)) {
            announce_allocation(*address, (size != nullptr) ? *size : 0,
                                owner_of_module(owner), Kept::OWNED);
        }
        return result;
    }
};

/** cuLibraryGetModule: another name for a library's variables. */
struct GetLibraryModule {
    using Signature               = CudaResult(uint64_t *, uint64_t);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t *module, uint64_t library)
    {
        const CudaResult result = driver(module, library);
        if ((result == CUDA_OK) && !note_module_of(library, *module)) {
            note_gap(Gap::MEMORY);
        }
        return result;
    }
};

/** cuLibraryUnload. */
struct UnloadLibrary {
    using Signature               = CudaResult(uint64_t);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t library)
    {
        Release release;
        release.owned(library);
        ModuleOwners modules = take_modules_of(library);
        const CudaResult result =
            release.through([&] { return driver(library); });
        if (result != CUDA_OK) {
            give_back_modules(modules);
        }
        return result;
    }
};

} // namespace ucx_ib_dmabuf
