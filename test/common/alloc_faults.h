// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Allocations that fail on demand: those of the program's own objects, by mmap
// (link with $(alloc_faults_ldflags)) or by new, also inside the C++ library.
// The plug-in has no others. Allocations of other libraries never fail, as they
// are not under test. A thread arms only itself.
namespace alloc_faults {

struct plan {
    unsigned nth = 1;     // the first one that fails, counted from 1
    bool all     = false; // all later ones fail, too
    bool failed  = false; // whether an allocation has failed
    // If set, new and delete call this and never fail.
    void (*inside)() = nullptr;
};

// Applies the plan in this thread until the end of the scope.
class armed {
public:
    explicit armed(plan &what);
    ~armed();
    armed(const armed &)            = delete;
    armed &operator=(const armed &) = delete;
};

// In an armed scope: nothing fails in code that stands in for a library.
inline thread_local unsigned exemptions = 0;
class exempt {
public:
    exempt() { ++exemptions; }
    ~exempt() { --exemptions; }
    exempt(const exempt &)            = delete;
    exempt &operator=(const exempt &) = delete;
};

// Calls run(plan &) with the first allocation failing, then the second, until
// no more are made; and again with all later ones failing, too. Returns the
// number of allocations that could fail. The run must create an `armed`.
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
