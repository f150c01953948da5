// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "render.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>

namespace ucx_ib_dmabuf {

// The counters of a running process, as a line of JSON: a memfd of this name,
// found through /proc/PID/fd. Other programs rely on the layout.
constexpr char live_page_name[] = "ucx-ib-dmabuf-metrics";

struct live_page {
    static constexpr uint64_t right_magic   = 0x62616d642d786375; // "ucx-dmab"
    static constexpr uint64_t right_version = 4;

    uint64_t magic, version, pid;
    // Odd while the text is being written; changed afterwards.
    std::atomic<uint32_t> sequence;
    // A reader increments it and wakes the waiter (futex). Other processes
    // write only this word and wants_room.
    std::atomic<uint32_t> asked;
    std::atomic<uint32_t> answered; // `asked` before the text was rendered
    // Processes that lack registered room increment it before they ask.
    std::atomic<uint32_t> wants_room;
    std::atomic<uint64_t> length; // of the text
    std::atomic<char> text[json_max];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Creates the page of this process unless it exists, and a thread that renders
// the counters to it when another process asks. Returns false on failure
// (errno). Not thread-safe. The thread
// calls `before` before it answers, with whether room is wanted.
bool show_live(void (*before)(bool room) = nullptr) noexcept;

// For a forked child, which has no page until it creates one. Closes the
// descriptor of its parent's page.
void forget_live() noexcept;

// Reads the page of another process, also of one in a container. A forged page
// cannot crash the reader.
class live_reader {
public:
    // `pid` as in /proc. Returns nullptr and sets errno if there is no such
    // process, if it may not be accessed, or if its page is of another version;
    // ENODATA if it has no page.
    static std::unique_ptr<live_reader> open(pid_t pid);
    ~live_reader();
    live_reader(const live_reader &)            = delete;
    live_reader &operator=(const live_reader &) = delete;

    // Requests an update, without waiting. With `room`, the process deregisters
    // all idle memory before it answers.
    void request(bool room = false);
    // Returns the answer, or an empty text if there is none yet. It may be
    // forged: any bytes.
    std::string answer() const;

private:
    explicit live_reader(live_page *page) : page_(page) {}

    live_page *const page_;
    uint32_t mine_ = 0; // number of the request
};

// Asks all accessible processes for room, and waits for at most half a second.
// Returns whether any answered.
bool ask_others_for_room() noexcept;

} // namespace ucx_ib_dmabuf
