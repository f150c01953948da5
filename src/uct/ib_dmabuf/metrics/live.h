// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "metrics.h"
#include <atomic>
#include <memory>
#include <sys/types.h>

namespace ucx_ib_dmabuf {

// What a process with the plug-in shows of itself while it runs: a memfd of
// this name, found through /proc/PID/fd. Other programs rely on its layout.
constexpr char live_page_name[] = "ucx-ib-dmabuf-metrics";

struct live_page {
    static constexpr uint64_t right_magic   = 0x62616d642d786375; // "ucx-dmab"
    static constexpr uint32_t right_version = 2;

    uint64_t magic;
    uint32_t version;
    uint32_t size; // of all of this, in bytes: another version may have more
    uint64_t pid;
    // Odd while the counters are being written; another one afterwards.
    std::atomic<uint32_t> sequence;
    // A reader adds one and wakes the waiter (futex). Other processes write
    // this word and wants_room only.
    std::atomic<uint32_t> asked;
    std::atomic<uint32_t> answered; // what had been asked before that
    // Processes that lack registered room add one before they ask.
    std::atomic<uint32_t> wants_room;
    described_counters counters;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Makes the page of this process, and a thread that copies the counters to it
// when another process asks, and sleeps otherwise, unless there are. False:
// there can be none (errno). Not by two threads at a time. `before` is called
// by that thread before it answers, with whether room is wanted.
bool show_live(void (*before)(bool room) = nullptr) noexcept;

// In the child of a fork: it has no page, until it makes one. Takes no memory.
void forget_live() noexcept;

// What another process shows, also one of a container and one that lies: no
// page ends its reader.
class live_reader {
public:
    // By the number that /proc has. Null: there is no such process, it has no
    // page, or one of another version, or it may not be looked into (errno).
    // ENODATA: it shows none.
    static std::unique_ptr<live_reader> open(pid_t pid);
    ~live_reader();
    live_reader(const live_reader &)            = delete;
    live_reader &operator=(const live_reader &) = delete;

    // Asks for what is now, and does not wait; with `room` also for all room
    // that the process has registered and does not use: the answer comes after
    // that.
    void request(bool room = false);
    // Whether there is an answer, which `out` then is. It may lie, but can be
    // rendered.
    bool answer(described_counters *out) const;
    // Both. False if the process does not answer within that time, as it is
    // stopped or gone.
    bool ask(unsigned milliseconds, described_counters *out);

private:
    explicit live_reader(live_page *page) : page_(page) {}

    live_page *const page_;
    uint32_t mine_ = 0; // request
};

// Asks all other processes for room that may be looked into, and waits for at
// most half a second. Whether any answered.
bool ask_others_for_room() noexcept;

} // namespace ucx_ib_dmabuf
