// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_VERBS_LADDER_H_
#define UCX_IB_DMABUF_VERBS_LADDER_H_

#include "../dmabuf.h"
#include "../host/verbs.h"
#include "errors.h"
#include <array>
#include <atomic>
#include <cstdint>

namespace ucx_ib_dmabuf {

// The ways in which a NIC takes a GPU's memory, in the order in which they are
// tried. Below them are peer memory and staging, which are uct_ib's and md/'s.
enum class ladder_step : uint8_t {
    data_direct, // PCIe mapping, mlx5dv_reg_dmabuf_mr(.., DATA_DIRECT)
    standard,    // standard mapping, ibv_reg_dmabuf_mr
    pcie,        // PCIe mapping, ibv_reg_dmabuf_mr: if standard is ENOTSUPP
};

// One NIC's registrations of dma-bufs. Which step takes a GPU's memory shows in
// use and is remembered. Thread-safe; no lock is held over a call.
class ladder {
public:
    // Asks the device whether it has Data Direct.
    explicit ladder(const protection_domain &pd);

    // Registers [address, address + length) of the GPU's memory, which is what
    // the source exports, to be reached under these addresses. The address is
    // aligned to pages. The caller owns *mr. A failure is logged with its
    // cause, once for each step and errno. UCS_ERR_NO_MEMORY: there is no room;
    // UCS_ERR_UNSUPPORTED: the two do not work together; UCS_ERR_BUSY: they may
    // a moment later.
    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                     size_t length, int access, ibv_mr **mr);

    // What is tried first for the GPU's memory.
    ladder_step first(int gpu) const { return known_[place(gpu)].load().first; }

private:
    // More GPUs than any machine has; what is beyond shares the last place.
    static constexpr size_t max_gpus = 256;
    // A step that never worked is given up when a lower one had to stand in for
    // it so often.
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
        int access;
    };
    struct outcome {
        ladder_step step;
        ucs_status_t status;
        int error; // errno of the verb; 0 if there was no export
        ibv_mr *mr;
    };

    static size_t place(int gpu);
    static bool goes_on(const outcome &failed);
    outcome attempt(ladder_step step, const request &what, bool proven) const;
    ibv_mr *call(ladder_step step, const request &what, int fd) const;
    void learn(int gpu, knowledge before, const outcome &first,
               ladder_step worked);
    static text cause(const char *what, const outcome &failed);
    failed_call call_of(const request &what, const outcome &failed) const;
    void report_skipped(const request &what, const outcome &first) const;
    void report_failed(const request &what, const outcome &failed) const;

    const protection_domain pd_;
    std::array<std::atomic<knowledge>, max_gpus> known_;
};

} // namespace ucx_ib_dmabuf

#endif
