// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "metric.h"
#include "render.h"
#include <atomic>

namespace ucx_ib_dmabuf {

// What a process with the plug-in shows of itself while it runs: a memfd of
// this name, found through /proc/PID/fd. Other programs rely on its layout.
constexpr char live_page_name[] = "ucx-ib-dmabuf-metrics";

struct live_page {
    static constexpr uint64_t right_magic   = 0x62616d642d786375; // "ucx-dmab"
    static constexpr uint32_t right_version = 1;

    uint64_t magic;
    uint32_t version;
    uint32_t size; // of all of this, in bytes: another version may have more
    uint64_t pid;
    // Odd while what is below it is being written; another one afterwards.
    std::atomic<uint32_t> sequence;
    // Who wants to know what is now adds one and wakes who waits on it (futex).
    // Others write this word and wants_room only.
    std::atomic<uint32_t> asked;
    uint32_t answered;   // what had been asked before the text was made
    uint32_t length;     // of the text
    char text[json_max]; // render_json()
    // Processes that lack registered room add one before they ask.
    std::atomic<uint32_t> wants_room;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Makes the page of this process and a thread that fills it in when somebody
// asks, and at no other time, unless there are. False: there can be none
// (errno). Not by two threads at a time. `now` may be called at any time from
// then on, until the process is gone, and before it `give_room` where another
// process wants room.
bool show_live(metrics (*now)(), void (*give_room)() = nullptr) noexcept;

// In the child of a fork: it has no page, until it makes one. Takes no memory.
void forget_live() noexcept;

} // namespace ucx_ib_dmabuf
