// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>

namespace ucx_ib_dmabuf {

struct live_page;

// For tools: what another process shows (live_page.h), also one of a container
// and one that lies: what it does to its page ends nobody who reads it.
class live_reader {
public:
    // By the number that /proc has. Null: there is no such process, it has no
    // page, or one of another version, or it may not be looked into (errno).
    // ENODATA: it shows none.
    static std::unique_ptr<live_reader> open(pid_t pid);
    ~live_reader();
    live_reader(const live_reader &)            = delete;
    live_reader &operator=(const live_reader &) = delete;

    // Asks what is now, and does not wait; with `room` also for all room that
    // the process has registered and does not use: when there is an answer it
    // has given it.
    void request(bool room = false);
    // What that brought: a line of JSON, printable ASCII. Empty: nothing yet,
    // and if it is no such line.
    std::string answer() const;
    // Both. Empty if the process does not answer within that time, as it is
    // stopped or gone.
    std::string ask(unsigned milliseconds);

private:
    live_reader(live_page *page, size_t size) : page_(page), size_(size) {}

    live_page *const page_;
    const size_t size_; // of what is mapped
    uint32_t mine_ = 0; // request
};

// Asks all other processes for room that may be looked into, and waits for at
// most half a second. Whether any answered.
bool ask_others_for_room() noexcept;

} // namespace ucx_ib_dmabuf
