// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_METRICS_HOOKS_GAP_H_
#define UCX_IB_DMABUF_METRICS_HOOKS_GAP_H_

#include <array>
#include <atomic>
#include <cstring>

namespace ucx_ib_dmabuf {

// Why some releases of GPU memory go unseen, if they do: the first reason, of
// any thread, for good. Takes no memory.
class hooks_gap {
public:
    void note(const char *why) noexcept
    {
        int found = none;
        if (state_.compare_exchange_strong(found, being_noted)) {
            memccpy(why_.data(), why, '\0', why_.size() - 1);
            state_ = noted;
        }
    }
    bool is_there() const { return state_ != none; }
    // Null: there is none, or it is not noted yet.
    const char *why() const
    {
        return (state_ == noted) ? why_.data() : nullptr;
    }

private:
    enum : int { none, being_noted, noted };

    std::atomic<int> state_{none};
    std::array<char, 256> why_{};
};

} // namespace ucx_ib_dmabuf

#endif
