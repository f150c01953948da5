// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/** Primary contexts: whose memory is known from its beginning. */
namespace ucx_ib_dmabuf {

/** Whether a device's primary context exists, or 'unknown'. */
bool primary_is_active(int device, bool unknown);

/** A device's primary context was created: we see all memory it will have. */
void note_new_primary(int device);

/**
 * Announce what went with a primary context: by its ranges if all of them are
 * known, else as everything. Libraries retain and release a context that nobody
 * else uses again and again, which must not empty the caches each time.
 */
void announce_primary_gone(int device);

} // namespace ucx_ib_dmabuf
