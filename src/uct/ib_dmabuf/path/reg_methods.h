// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <uct/ib_dmabuf/gpu/dmabuf_source.h>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/ucx/verbs.h>

namespace ucx_ib_dmabuf {

// The mapping of the dma-buf by which a NIC registers a GPU's memory. The PCIe
// mapping comes first if uct_ib registers over Data Direct, which does not
// reach the standard mapping of a coherent GPU. Otherwise it is the fallback if
// the standard mapping is ENOTSUPP or refuted. The next fallbacks are peer
// memory, by uct_ib, and staging, by UCP.
enum class ladder_step : uint8_t { standard, pcie };

// The mapping of the memory behind a step's dma-buf.
constexpr mapping_type mapping_of(ladder_step step)
{
    return step == ladder_step::standard ? mapping_type::standard
                                         : mapping_type::pcie;
}

// Whether mlx5's driver reports Data Direct for the device.
bool has_data_direct(const protection_domain &pd);

// Registers a dma-buf, from an offset on. A step calls it.
class dmabuf_registration {
public:
    // Returns a handle, or nullptr and sets errno.
    virtual void *reg(int fd, size_t offset, uintptr_t address,
                      size_t length) = 0;
    virtual void dereg(void *handle) = 0;

protected:
    ~dmabuf_registration() = default;
};

// Whether a step carries data to and from a GPU's registered memory.
enum class finding : uint8_t {
    carries,  // every byte arrived in its place, and no other byte changed
    refuted,  // a byte did not
    unknown,  // it could not be tested
    doubtful, // nor could it now, as operations of the NIC fail
};

// Tests paths, and stores each finding for as long as it holds. Called with no
// lock held.
class path_judge {
public:
    // Called before each registration: whether the path is known to be refuted.
    virtual bool is_refuted(ladder_step step, int gpu) noexcept = 0;
    // Called after each registration; takes milliseconds for an unknown path.
    virtual finding judge(ladder_step step, int gpu,
                          dmabuf_registration &by) noexcept = 0;

protected:
    ~path_judge() = default;
};

// The dma-buf registrations of one NIC. Remembers which step works for a GPU's
// memory; a finding of the judge overrides that. Thread-safe; holds no lock
// over a call.
class ladder {
public:
    // `tries_data_direct`: registrations use Data Direct if the device has it.
    // A step that the judge refutes counts as one that does not register. The
    // judge may be null.
    ladder(const protection_domain &pd, bool tries_data_direct,
           path_judge *judge = nullptr);

    // Registers [address, address + length) of the GPU's memory, which the
    // source exports, under the same addresses. The address is aligned to
    // pages. The caller owns the handle. Logs a failure with its cause, once
    // for each step and errno. UCS_ERR_NO_MEMORY: no room. UCS_ERR_UNSUPPORTED:
    // NIC and GPU do not work together. UCS_ERR_BUSY: they may a moment later.
    // `step`, if not null, is set to the step that worked.
    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                     size_t length, dmabuf_registration &by, void **handle,
                     ladder_step *step = nullptr);

    // The step that is tried first for the GPU's memory.
    ladder_step first(int gpu) const { return known_[place(gpu)].load().first; }

private:
    // More GPUs than any machine has; further ones share the last slot.
    static constexpr size_t max_gpus = 256;
    // A step that never worked is given up after the other step had to replace
    // it this often.
    static constexpr uint8_t enough = 3;
    static constexpr uint8_t works  = UINT8_MAX; // it has worked

    // The state of a GPU.
    struct knowledge {
        ladder_step first;
        uint8_t failures; // of the first step; or works
    };
    struct request {
        dmabuf_source &memory;
        int gpu;
        uintptr_t address;
        size_t length;
        dmabuf_registration &by;
    };
    struct outcome {
        ladder_step step;
        ucs_status_t status;
        int error; // errno of the verb; 0 if none failed
        void *handle;
        bool refuted = false; // by the judge
        bool proven  = false; // the path carries data
    };

    static size_t place(int gpu);
    bool goes_on(knowledge before, const outcome &failed) const;
    static outcome attempt(ladder_step step, const request &what, bool proven);
    outcome attempt_judged(ladder_step step, const request &what, bool proven);
    void learn(int gpu, knowledge before, const outcome &first,
               ladder_step worked);
    static text cause(const char *what, const outcome &failed);
    text describe(const request &what, const outcome &failed) const;
    void report_chosen(int gpu, const outcome &first,
                       const outcome &chosen) const;
    void report_skipped(const request &what, const outcome &first) const;
    void report_failed(const request &what, const outcome &failed) const;

    const protection_domain pd_;
    path_judge *const judge_;
    const ladder_step preferred_;
    std::array<std::atomic<knowledge>, max_gpus> known_;
};

} // namespace ucx_ib_dmabuf
