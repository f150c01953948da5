// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "announce.h"

namespace ucx_ib_dmabuf::ucm {

// A release, from before the driver call until after it: announces it before
// the call, and takes that back if the driver refuses. A nested release
// announces its memory again. No hook can tell that it is nested, as a thread
// may jump out of a call (siglongjmp, an exception).
class release {
public:
    release()                           = default;
    ~release()                          = default;
    release(const release &)            = delete;
    release &operator=(const release &) = delete;

    // An allocation, by its address. Address 0 is ignored.
    void announce_free(uint64_t address);
    void announce_host_free(uint64_t address);
    // An allocation that returns to its pool. Ignored during a capture.
    template <bool per_thread>
    void announce_pool_free(uint64_t address, void *stream)
    {
        announce_pool_free(address, stream, per_thread);
    }
    // A range of mappings (cuMemMap).
    void announce_unmap(uint64_t address, size_t size);
    // An import of memory that may have been imported several times.
    void announce_ipc_close(uint64_t address);
    // The memory that was returned to this pool.
    void announce_pool_trim(uint64_t pool)
    {
        announce_owned(state::retired, pool);
    }
    // The variables of this module or library.
    void announce_unload(uint64_t module)
    {
        announce_owned(state::owned, module);
    }
    // Unknown memory, perhaps all.
    void announce_all();
    // The same if graphs allocate memory; otherwise nothing is announced.
    void announce_graph_free();

    // Calls the driver, and completes the announcement by its result.
    template <class Call>
    cuda_result through(Call &&call)
    {
        const cuda_result result = call();
        if ((result != CUDA_SUCCESS) || all_ || is_counted_) {
            finish(result);
        }
        return result;
    }

private:
    void announce_pool_free(uint64_t address, void *stream, bool per_thread);
    void announce_owned(state which, uint64_t owner);
    void finish(cuda_result result);
    void announce(const memory_range &listed,
                  ucs_memory_type_t type = UCS_MEMORY_TYPE_CUDA);
    void take_back(bool size_is_sure);

    bool all_           = false;
    bool is_counted_    = false;
    memory_range range_ = {0, 0};       // to take back; size 0: none
    std::vector<memory_range> owned_;   // the same
    std::vector<memory_range> modules_; // the same
};

// Notes that graphs allocate memory: destroying graphs releases it.
void note_graph_memory();
// `per_thread`: as in the _ptsz variants, the default stream is per thread.
bool is_capturing(void *stream, bool per_thread);

} // namespace ucx_ib_dmabuf::ucm
