// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_VERBS_LADDER_H_
#define UCX_IB_DMABUF_VERBS_LADDER_H_

#include "../dmabuf.h"
#include "../host/verbs.h"
#include "../report.h"
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

// How the memory behind a step's dma-buf is mapped.
mapping_type mapping_of(ladder_step step);

// What a step calls: a registration of a dma-buf from its start.
class dmabuf_registration {
public:
    // A handle; null, and an errno, if that fails.
    virtual void *reg(ladder_step step, int fd, uintptr_t address,
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
    // Asks the device whether it has Data Direct. What the judge, who may be
    // null, says that a step does not carry is as if it did not take it.
    explicit ladder(const protection_domain &pd, path_judge *judge = nullptr);

    // Registers [address, address + length) of the GPU's memory, which is what
    // the source exports, to be reached under these addresses. The address is
    // aligned to pages. The caller owns *mr. A failure is logged with its
    // cause, once for each step and errno. UCS_ERR_NO_MEMORY: there is no room;
    // UCS_ERR_UNSUPPORTED: the two do not work together; UCS_ERR_BUSY: they may
    // a moment later. `step`: where not null, which one took it.
    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                     size_t length, int access, ibv_mr **mr,
                     ladder_step *step = nullptr);
    // The same by somebody else's calls, whose handle the caller gets.
    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                     size_t length, dmabuf_registration &by, void **handle,
                     ladder_step *step = nullptr);

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
    static bool goes_on(const outcome &failed);
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
    std::array<std::atomic<knowledge>, max_gpus> known_;
};

} // namespace ucx_ib_dmabuf

#endif
