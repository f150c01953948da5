// SPDX-License-Identifier: BSD-3-Clause
#include "scenarios.h"
#include <uct/ib_dmabuf/cache/reclaim/references.h>

// The folder reclaim/ alone: one object that threads find, use and give back,
// and one that takes it away.
namespace interleave {

namespace {

using ucx_ib_dmabuf::mutex;
using ucx_ib_dmabuf::references;

void between(const char *what, location at = location::current())
{
    the_machine.step(what, at);
}

// What the cache has a region for, without anything else.
struct lending : scenario {
    static constexpr uint32_t object = 1;

    references counts;
    mutex lock;
    bool findable = true, taken_away = false;
    unsigned freed = 0;
    int without    = 0; // references of threads without a record

    lending() { ucx_ib_dmabuf::steps::thread_key::refused = 0; }

    void finish() override
    {
        if (freed != taken_away) {
            the_machine.fail("never freed");
        }
    }

    // Whether it is there.
    bool take()
    {
        references::reader me(counts);
        if (!me) {
            return take_locked();
        }
        bool found = findable;
        between("found");
        if (found) {
            me->add(object, 1);
        }
        return found;
    }
    bool take_locked()
    {
        references::record *me = counts.prepare(lock);
        std::lock_guard<mutex> held(lock);
        if (findable) {
            count(me, 1);
        }
        return findable;
    }
    void give()
    {
        bool last;
        if (freed != 0) {
            the_machine.fail("freed while in use");
        }
        {
            references::reader me(counts);
            if (!me) {
                give_locked();
                return;
            }
            me->add(object, -1);
            last = taken_away;
        }
        if (last) {
            free_unused();
        }
    }
    void give_locked()
    {
        references::record *me = counts.prepare(lock);
        {
            std::lock_guard<mutex> held(lock);
            count(me, -1);
        }
        free_unused();
    }
    void count(references::record *me, int change)
    {
        if (me != nullptr) {
            me->add(object, change);
        } else {
            without += change;
        }
    }
    void free_unused()
    {
        std::lock_guard<mutex> held(lock);
        if (taken_away && freed == 0 && counts.total(object) + without == 0) {
            ++freed;
        }
    }
    void take_away()
    {
        std::lock_guard<mutex> held(lock);
        references::writer alone(counts);
        findable = false;
        between("taken away");
        taken_away = true;
        if (counts.total(object) + without == 0) {
            ++freed;
        }
    }
    void use()
    {
        if (take()) {
            between("use");
            give();
        }
    }
    // Of another object, which has the same place among the hot counts.
    void count_other(int change)
    {
        counts.prepare(lock)->add(object + 1, change);
    }
    void refuse_record()
    {
        ucx_ib_dmabuf::steps::thread_key::refused |= 1u << the_machine.self();
    }
};

constexpr auto nothing = [] {};

struct one_reader : lending {
    one_reader()
    {
        add([this] { use(); }, [this] { use(); });
        add(nothing, [this] { take_away(); });
    }
};

// Who takes it away has a record as well.
struct readers_all : lending {
    readers_all()
    {
        add([this] { use(); }, [this] { use(); });
        add([this] { use(); },
            [this] {
                take_away();
                use();
            });
    }
};

struct first_use : lending {
    first_use()
    {
        add(nothing, [this] { use(); });
        add(nothing, [this] { use(); });
        add(nothing, [this] { take_away(); });
    }
};

// One takes it, and another one gives it back.
struct given_back_elsewhere : lending {
    given_back_elsewhere()
    {
        add([this] { take(); }, [this] { use(); });
        add([this] { use(); }, [this] { give(); });
        add(nothing, [this] { take_away(); });
    }
};

// A record goes on with the next thread.
struct thread_ends : lending {
    thread_ends()
    {
        add([this] { take(); }, nothing);
        add(nothing, [this] {
            use();
            give();
        });
        add(nothing, [this] { take_away(); });
    }
};

struct no_record : lending {
    no_record()
    {
        add([this] { refuse_record(); }, [this] { use(); });
        add([this] { use(); }, [this] { use(); });
        add(nothing, [this] { take_away(); });
    }
};

// It is counted in two places.
struct shared_place : lending {
    shared_place()
    {
        add(
            [this] {
                count_other(1);
                take();
            },
            [this] {
                count_other(-1);
                use();
                give();
            });
        add(nothing, [this] { take_away(); });
    }
};

} // namespace

const std::vector<named_scenario> reclaim_scenarios{
    SCENARIO(one_reader, 4),   SCENARIO(readers_all, 3),
    SCENARIO(first_use, 2),    SCENARIO(given_back_elsewhere, 2),
    SCENARIO(thread_ends, 2),  SCENARIO(no_record, 2),
    SCENARIO(shared_place, 3),
};

} // namespace interleave
