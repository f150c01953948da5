// SPDX-License-Identifier: BSD-3-Clause
#include "ucm/primaries.h"

#include <atomic>

#include "ucm/release.h"

namespace ucx_ib_dmabuf {
namespace {

// Devices whose primary context was created under our eyes.
std::atomic<uint64_t> known_primaries{0};

uint64_t device_bit(int device)
{
    return ((device >= 0) && (device < 64)) ? uint64_t(1) << device : 0;
}

} // namespace

bool primary_is_active(int device, bool unknown)
{
    const auto state =
        driver_calls.primary_state.load(std::memory_order_acquire);
    const RelaxedCapture relaxed;
    unsigned flags;
    int active = 0;
    if ((state == nullptr) || (state(device, &flags, &active) != CUDA_OK)) {
        return unknown;
    }
    return active != 0;
}

void note_new_primary(int device)
{
    known_primaries.fetch_or(device_bit(device), std::memory_order_relaxed);
}

void announce_primary_gone(int device)
{
    const uint64_t bit = device_bit(device);
    if ((known_primaries.fetch_and(~bit, std::memory_order_relaxed) & bit) ==
        0) {
        announce_everything();
    }
    announce_vanished();
}

} // namespace ucx_ib_dmabuf
