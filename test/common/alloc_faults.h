// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Allocations that fail on demand: those that the program's own objects make,
// by malloc and its kin or mmap (link with $(alloc_faults_ldflags)) or by new,
// also inside the C++ library. What other libraries allocate for themselves
// never fails, as it is not ours to test. A thread arms itself only.
namespace alloc_faults {

struct plan {
    unsigned nth = 1;     // the first that fails, counted from 1
    bool all     = false; // and all after it
    bool failed  = false; // whether so many were made
    // Called by new and delete instead: an allocator that calls others.
    void (*inside)() = nullptr;
};

// From here to the end of the scope the plan is carried out.
class armed {
public:
    explicit armed(plan &what);
    ~armed();
    armed(const armed &)            = delete;
    armed &operator=(const armed &) = delete;
};

// Inside of that, for what stands in for somebody else: nothing fails.
class exempt {
public:
    exempt();
    ~exempt();
    exempt(const exempt &)            = delete;
    exempt &operator=(const exempt &) = delete;
};

// Calls run(plan &) with the first allocation failing, then the second, until
// no more are made; and again with all failing from that one on. Returns how
// many could fail. The run says by `armed` where.
template <typename Run>
unsigned each(Run &&run)
{
    unsigned count = 0;

    for (bool all : {false, true}) {
        for (unsigned nth = 1;; ++nth) {
            plan what{nth, all};
            run(what);
            if (!what.failed) {
                count = nth - 1;
                break;
            }
        }
    }
    return count;
}

} // namespace alloc_faults
