// SPDX-License-Identifier: BSD-3-Clause
#include "scenarios.h"
#include "world.h"

// What threads do at the same time with several regions, NICs, segments, and
// with threads that come and go.
namespace interleave {

namespace {

ucx_ib_dmabuf::cache_settings small_chunks()
{
    ucx_ib_dmabuf::cache_settings settings;
    settings.chunk_size = 64 * KiB;
    return settings;
}

// Regions that overlap: a use across the border of two chunks has one of its
// own.
struct overlapping : world {
    const region *held = nullptr;

    overlapping() : world(small_chunks())
    {
        alloc(A, granule);
        add(
            [this] {
                held = take(B);
                use(A);
            },
            [this] {
                use(B - 1, 2);
                give(held);
            });
        add(nothing, [this] {
            use(B - 1);
            release(A);
        });
    }
};

// ... and one that is larger than a chunk has what lies within it.
struct replaced_by_larger : world {
    const region *held = nullptr;

    replaced_by_larger() : world(small_chunks())
    {
        alloc(A, granule);
        add(
            [this] {
                held = take(A);
                use(B);
            },
            [this] {
                use(B);
                give(held);
            });
        add(nothing, [this] { use(A, 128 * KiB); });
    }
};

// Which all threads use that cannot have one of their own.
struct without_record : with_memory {
    const region *held = nullptr;

    without_record()
    {
        add(
            [this] {
                refuse_record();
                held = take(A);
            },
            [this] {
                give(held);
                use(A);
            });
        add([this] { use(A); }, [this] { use(A); });
        add(nothing, [this] { release(A); });
    }
};

// The record goes on with the next thread, and so does what it has counted.
struct thread_ends : with_memory {
    const region *held = nullptr;

    thread_ends()
    {
        add([this] { held = take(A); }, nothing);
        add(nothing, [this] {
            use(A);
            give(held);
        });
        add(nothing, [this] { release(A); });
    }
};

// Both NICs have served the GPU: a miss of one registers with the other, too.
struct two_nics : with_memory {
    two_nics()
    {
        alloc(A + granule, granule);
        for (unsigned nic : {0, 1}) {
            add([this, nic] { use(A, 1, nic); },
                [this, nic] { use(A + granule, 1, nic); });
        }
    }
    void finish() override
    {
        with_memory::finish();
        expect(registered() == 4, "registered more than once with a NIC");
    }
};

struct two_nics_and_event : with_memory {
    two_nics_and_event()
    {
        alloc(A + granule, granule);
        add([this] { use(A); }, [this] { use(A + granule); });
        add([this] { use(A, 1, 1); }, [this] { release(A + granule); });
    }
};

// One NIC goes while another one is used.
struct detached_nic : with_memory {
    detached_nic()
    {
        add([this] { use(A); }, [this] { use(A); });
        add([this] { use(A, 1, 1); }, [this] { cache_->detach(1); });
        add(nothing, [this] { release(A); });
    }
};

// What is large is deregistered by a thread of the cache's, which can be waited
// for.
struct deferred : world {
    deferred() : world(large_is_deferred())
    {
        alloc(A, granule);
        alloc(A + granule, 64 * KiB);
        alloc(A + 2 * granule, granule);
        add(
            [this] {
                use(A);
                use(A + granule);
                use(A + 2 * granule);
                release(A + 2 * granule); // then there is that thread
            },
            [this] {
                release(A);
                flush();
            });
        add(nothing, [this] { release(A + granule); });
    }
    static ucx_ib_dmabuf::cache_settings large_is_deferred()
    {
        ucx_ib_dmabuf::cache_settings settings;
        settings.deferred_size = 1;
        return settings;
    }
};

// ... the last user does it itself.
struct deferred_last_use : world {
    const region *held = nullptr;

    deferred_last_use() : world(deferred::large_is_deferred())
    {
        alloc(A, granule);
        add([this] { held = take(A); }, [this] { give(held); });
        add(nothing, [this] { release(A); });
    }
};

// No event tells that the memory is replaced; each hit asks.
struct missed_event : with_memory {
    missed_event()
    {
        cache_->check_identity();
        add([this] { use(A); }, [this] { use(A); });
        add(nothing, [this] {
            replace(A);
            use(A);
        });
    }
};

struct with_segments : world {
    with_segments() : world(one_chunk())
    {
        for (uintptr_t base : {A, B, C}) {
            map(base, 64 * KiB);
        }
    }
    static ucx_ib_dmabuf::cache_settings one_chunk()
    {
        ucx_ib_dmabuf::cache_settings settings;
        settings.chunk_size = granule;
        return settings;
    }
};

// Segments are registered together; one of them goes.
struct segments : with_segments {
    segments()
    {
        add(nothing, [this] { use(B); });
        add(nothing, [this] { use(C - 1, 2); });
        add(nothing, [this] { release(A); });
    }
};

// One is there already when the others are mapped.
struct segment_in_use : with_segments {
    const region *held = nullptr;

    segment_in_use()
    {
        add([this] { held = take(A); },
            [this] {
                map(C + 64 * KiB, 64 * KiB);
                use(C + 64 * KiB);
                give(held);
            });
        add(nothing, [this] {
            release(C);
            use(B);
        });
    }
};

// What is in use goes with its last user, with either NIC.
struct two_nics_in_use : with_memory {
    const region *held[2] = {};

    two_nics_in_use()
    {
        add(
            [this] {
                held[0] = take(A, 1, 0);
                held[1] = take(A, 1, 1);
            },
            [this] { give(held[0]); });
        add(nothing, [this] { give(held[1]); });
        add(nothing, [this] { release(A); });
    }
};

} // namespace

const std::vector<named_scenario> region_scenarios{
    SCENARIO(overlapping, 2),       SCENARIO(replaced_by_larger, 2),
    SCENARIO(without_record, 2),    SCENARIO(thread_ends, 2),
    SCENARIO(two_nics, 2),          SCENARIO(two_nics_and_event, 2),
    SCENARIO(detached_nic, 2),      SCENARIO(deferred, 2),
    SCENARIO(deferred_last_use, 2), SCENARIO(missed_event, 2),
    SCENARIO(segments, 2),          SCENARIO(segment_in_use, 2),
    SCENARIO(two_nics_in_use, 2),
};

} // namespace interleave
