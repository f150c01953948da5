// SPDX-License-Identifier: BSD-3-Clause
#include "scenarios.h"
#include "world.h"

// What threads do at the same time, from a few lines each. A region is made by
// the thread that uses it first, its owner.
namespace interleave {

namespace {

// Its owner hits it while another thread releases its memory.
struct hit_and_event : with_memory {
    hit_and_event()
    {
        add([this] { use(A); }, [this] { use(A); });
        add(nothing, [this] { release(A); });
    }
};

// The same, by the owner; the one that hits is another.
struct hit_and_event_by_owner : with_memory {
    hit_and_event_by_owner()
    {
        add([this] { use(A); }, [this] { release(A); });
        add([this] { use(A); }, [this] { use(A); });
    }
};

struct put_and_event : with_memory {
    const region *held = nullptr;

    put_and_event()
    {
        add([this] { held = take(A); }, [this] { give(held); });
        add(nothing, [this] { release(A); });
    }
};

// Two users: one of them is the last.
struct puts_and_event : with_memory {
    const region *held[2] = {};

    puts_and_event()
    {
        for (const region *&mine : held) {
            add([this, &mine] { mine = take(A); },
                [this, &mine] { give(mine); });
        }
        add(nothing, [this] { release(A); });
    }
};

// Given back by another thread than took it.
struct put_elsewhere : with_memory {
    const region *held = nullptr;

    put_elsewhere()
    {
        add([this] { held = take(A); }, [this] { use(A); });
        add(nothing, [this] { give(held); });
        add(nothing, [this] { release(A); });
    }
};

// ... and what was counted for it is another region's then.
struct counts_of_another : with_memory {
    const region *held = nullptr;

    counts_of_another()
    {
        alloc(A + granule, granule);
        add([this] { held = take(A); },
            [this] {
                use(A + granule);
                release(A + granule);
            });
        add(
            [this] {
                give(held);
                release(A);
            },
            [this] { use(A + granule); });
    }
};

// A thread wants what another one has had for itself.
struct sharing : with_memory {
    sharing()
    {
        add([this] { use(A); }, [this] { use(A); });
        add(nothing, [this] { use(A); });
        add(nothing, [this] { release(A); });
    }
};

// The entry becomes another region while somebody looks at it.
struct reuse : with_memory {
    reuse()
    {
        add([this] { use(A); }, [this] { use(A); });
        add([this] { use(A); },
            [this] {
                release(A);
                alloc(A, granule);
                use(A);
                release(A);
            });
    }
};

// Several regions of one granule come and go while somebody looks at a third
// address there.
struct emptied_granule : world {
    emptied_granule()
    {
        alloc(A, 64 * KiB);
        alloc(B, 64 * KiB);
        alloc(A + granule, granule);
        add([this] { use(A + granule); }, [this] { use(C); });
        add(
            [this] {
                use(A);
                use(B);
            },
            [this] {
                release(A);
                release(B);
            });
    }
};

// What a granule's regions are found through is replaced by something larger.
struct growing_granule : world {
    growing_granule()
    {
        for (unsigned i = 0; i < 5; ++i) {
            alloc(A + i * 64 * KiB, 64 * KiB);
        }
        add([this] { use(A); }, [this] { use(A); });
        add(
            [this] {
                for (unsigned i = 1; i < 4; ++i) {
                    use(A + i * 64 * KiB);
                }
                use(A);
            },
            [this] {
                use(A + 4 * 64 * KiB);
                release(A);
            });
    }
};

ucx_ib_dmabuf::cache_settings one_region()
{
    ucx_ib_dmabuf::cache_settings settings;
    settings.max_regions = 1;
    return settings;
}

// There is room for one region, and two are wanted.
struct eviction : with_memory {
    eviction() : with_memory(one_region())
    {
        alloc(A + granule, granule);
        add([this] { use(A); }, [this] { use(A); });
        add(nothing, [this] { use(A + granule); });
    }
};

struct registration_and_event : with_memory {
    registration_and_event()
    {
        add(nothing, [this] { use(A); });
        add(nothing, [this] {
            release(A);
            use(A);
        });
    }
};

// The memory is replaced meanwhile.
struct registration_and_replacement : with_memory {
    registration_and_replacement()
    {
        add(nothing, [this] { use(A); });
        add(nothing, [this] {
            release(A);
            alloc(A, granule);
            use(A);
        });
    }
};

struct two_misses : with_memory {
    two_misses()
    {
        add(nothing, [this] { use(A); });
        add(nothing, [this] { use(A); });
    }
    void finish() override
    {
        with_memory::finish();
        expect(registered() == 1, "registered more than once");
    }
};

// What a NIC had registered it does not reach any more.
struct failing_nic : with_memory {
    failing_nic()
    {
        add(nothing, [this] {
            use(A);
            use(A);
        });
        add(nothing, [this] {
            lose(0);
            use(A);
        });
    }
};

// ... nor what was being registered with it for another one.
struct failing_companion : with_memory {
    failing_companion()
    {
        alloc(A + granule, granule);
        alloc(A + 2 * granule, granule);
        add(
            [this] {
                use(A, 1, 1);
                use(A + 2 * granule, 1, 1);
            },
            [this] { use(A + granule); });
        add(nothing, [this] {
            lose(1);
            use(A + granule, 1, 1);
        });
    }
};

} // namespace

const std::vector<named_scenario> hit_scenarios{
    SCENARIO(hit_and_event, 3),
    SCENARIO(hit_and_event_by_owner, 3),
    SCENARIO(put_and_event, 4),
    SCENARIO(puts_and_event, 2),
    SCENARIO(put_elsewhere, 2),
    SCENARIO(counts_of_another, 2),
    SCENARIO(sharing, 2),
    SCENARIO(reuse, 2),
    SCENARIO(emptied_granule, 2),
    SCENARIO(growing_granule, 2),
    SCENARIO(eviction, 2),
    SCENARIO(registration_and_event, 3),
    SCENARIO(registration_and_replacement, 3),
    SCENARIO(two_misses, 3),
    SCENARIO(failing_nic, 2),
    SCENARIO(failing_companion, 2),
};

} // namespace interleave
