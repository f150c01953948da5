// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "counters.h"
#include <memory>
#include <sys/types.h>

namespace ucx_ib_dmabuf {

// The counters of a running process are a memfd of this name, which other
// processes of the same user, and root's, find through /proc/PID/fd. They
// only read it, except for requests for room.
constexpr char live_page_name[] = "ucx-ib-dmabuf-metrics";

// Moves this process's counters into such a file, unless they are there.
// Returns false on failure (errno). Not thread-safe; no other thread may count
// meanwhile, or its counts may be lost.
bool show_live() noexcept;

// Starts a thread that calls `make_room` when another process lacks registered
// room, if the counters are shown. Returns false on failure. Called once, in a
// forked child once more.
bool give_room_to_others(void (*make_room)() noexcept) noexcept;

// For a forked child, which shares no counters with its parent. Keeps their
// values. Returns false if the counters are still the parent's.
bool forget_live() noexcept;

// Copies the counters of a process, also of one in a container. They may be
// forged: any bytes. Returns nullptr and sets errno on failure: ENODATA if it
// shows none, EPROTO if its plug-in is of another version.
std::unique_ptr<counters> read_live(pid_t pid);

// Asks all accessible processes for room, and waits for at most half a second.
// Returns whether any answered.
bool ask_others_for_room() noexcept;

} // namespace ucx_ib_dmabuf
