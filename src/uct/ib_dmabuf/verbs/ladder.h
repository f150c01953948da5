// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../dmabuf.h"
#include "../host/verbs.h"
#include "../report.h"
#include <array>
#include <atomic>
#include <cstdint>

namespace ucx_ib_dmabuf {

// The mapping of the dma-buf in which a NIC takes a GPU's memory. The PCIe
// mapping comes first where uct_ib registers over Data Direct, which does not
// reach the standard one of a coherent GPU; else it stands in where the
// standard mapping is ENOTSUPP or does not carry what is sent. Below both are
// peer memory and staging, which are uct_ib's and UCP's.
enum class ladder_step : uint8_t { standard, pcie };

// How the memory behind a step's dma-buf is mapped.
constexpr mapping_type mapping_of(ladder_step step)
{
    return step == ladder_step::standard ? mapping_type::standard
                                         : mapping_type::pcie;
}

// Whether mlx5's driver says that the device has Data Direct.
bool has_data_direct(const protection_domain &pd);

// What a step calls: a registration of a dma-buf, from an offset on.
class dmabuf_registration {
public:
    // A handle; null, and an errno, if that fails.
    virtual void *reg(int fd, size_t offset, uintptr_t address,
                      size_t length) = 0;
    virtual void dereg(void *handle) = 0;

protected:
    ~dmabuf_registration() = default;
};

// Whether what a step registers of a GPU carries data, too.
enum class finding : uint8_t {
    carries,  // every byte arrived where it was sent, and nowhere else
    refuted,  // one did not
    unknown,  // that could not be found out
    doubtful, // nor now, as operations of the NIC's fail meanwhile
};

// Who finds that out, and knows what was found for as long as it holds. Called
// without any lock held.
class path_judge {
public:
    // Before each registration: whether that is known already.
    virtual bool is_refuted(ladder_step step, int gpu) noexcept = 0;
    // After each one; may take milliseconds where it is not known.
    virtual finding judge(ladder_step step, int gpu,
                          dmabuf_registration &by) noexcept = 0;

protected:
    ~path_judge() = default;
};

// One NIC's registrations of dma-bufs. Which step takes a GPU's memory shows in
// use and is remembered, but for what the judge says. Thread-safe; no lock is
// held over a call.
class ladder {
public:
    // `tries_data_direct`: what registers does so over Data Direct, where the
    // device has it. What the judge, who may be null, says that a step does not
    // carry is as if it did not take it.
    ladder(const protection_domain &pd, bool tries_data_direct,
           path_judge *judge = nullptr);

    // Registers [address, address + length) of the GPU's memory, which the
    // source exports, to be reached under these addresses. The address is
    // aligned to pages. The caller owns the handle. A failure is logged with
    // its cause, once for each step and errno. UCS_ERR_NO_MEMORY: there is no
    // room; UCS_ERR_UNSUPPORTED: the two do not work together; UCS_ERR_BUSY:
    // they may a moment later. `step`: where not null, which one took it.
    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                     size_t length, dmabuf_registration &by, void **handle,
                     ladder_step *step = nullptr);

    // What is tried first for the GPU's memory.
    ladder_step first(int gpu) const { return known_[place(gpu)].load().first; }

private:
    // More GPUs than any machine has; what is beyond shares the last place.
    static constexpr size_t max_gpus = 256;
    // A step that never worked is given up when the other one had to stand in
    // for it so often.
    static constexpr uint8_t enough = 3;
    static constexpr uint8_t works  = UINT8_MAX; // it has worked

    // What is known of a GPU.
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
        int error; // errno of the verb; 0 if there was no export
        void *handle;
        bool refuted = false; // it was told
        bool proven  = false; // that it carries data
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
