// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "scenario.h"

/** Access to fake_cuda.c for the scenarios. */
namespace ucx_ib_dmabuf::test {

constexpr uint64_t ADDRESS = 0x7f2000000000;
constexpr uint64_t NEW     = 0x7f0000000000; // the fake's first allocation
constexpr size_t SIZE      = 0x10000;        // reported size of any memory

using Call1     = int(uint64_t);
using Call2     = int(uint64_t, uint64_t);
using Alloc     = int(uint64_t *, size_t);
using Alloc3    = int(uint64_t *, size_t, uint64_t);
using Alloc4    = int(uint64_t *, size_t, uint64_t, uint64_t);
using Device    = int(int);
using GetProc   = int(const char *, void **, int, uint64_t, int *);
using GetGlobal = int(uint64_t *, size_t *, uint64_t, const char *);

/** Opens a library of these tests by its path in their folder. */
inline void *open_fake(const std::string &path)
{
    const std::string build = variable("top_builddir");
    return open_library((build.empty() ? "." : build) + "/test/gtest/ucm/" +
                        path);
}

/** The fake driver. */
class Fake {
public:
    explicit Fake(const char *folder = "fake")
    {
        library = open_fake(std::string(folder) + "/libcuda.so.1");
        calls_ =
            function_of<unsigned long(const char *)>(library, "fake_calls");
    }

    template <class Function>
    Function *get(const char *name) const
    {
        return function_of<Function>(library, name);
    }

    int &setting(const char *name) const
    {
        return *static_cast<int *>(symbol_of(library, name));
    }

    long calls(const char *name) const { return long(calls_(name)); }

    /** Sets the next allocation's address; others follow a step apart. */
    void place(uint64_t address, size_t step) const
    {
        *static_cast<size_t *>(symbol_of(library, "fake_step")) = step;
        *static_cast<uint64_t *>(symbol_of(library, "fake_allocations")) =
            (step == 0) ? 0 : (address - NEW) / step;
    }

    void *library;

private:
    unsigned long (*calls_)(const char *);
};

// Expects one event, for this range, before the driver's function is entered.
inline void expect_release(const Fake &fake, const char *name, uint64_t address,
                           size_t size, const std::function<void()> &call)
{
    const long before = fake.calls(name);
    Events events([&] { return fake.calls(name); });
    call();
    const auto seen = events.take();
    CHECK_EQ(fake.calls(name), before + 1);
    if (seen.size() != 1) {
        check_failed(__FILE__, __LINE__, name,
                     std::to_string(seen.size()) + " events");
    }
    CHECK(seen[0].free);
    CHECK_EQ(seen[0].address, address);
    CHECK_EQ(seen[0].size, size);
    CHECK_EQ(seen[0].context, before);
    CHECK_EQ(int(seen[0].type), std::string(name) == "cuMemFreeHost"
                                    ? int(UCS_MEMORY_TYPE_HOST)
                                    : int(UCS_MEMORY_TYPE_CUDA));
}

using Query = int (*)(uint64_t);

/** Sets the driver's answers about addresses; nullptr restores its own. */
inline void set_query(const Fake &fake, Query query)
{
    *static_cast<Query *>(symbol_of(fake.library, "fake_query")) = query;
}

/** Returns whether an address's last event leaves memory; counts its frees. */
inline bool ends_as_memory(Events &events, uint64_t address, size_t *frees,
                           bool *managed = nullptr)
{
    bool there = true;
    *frees     = 0;
    for (const SeenEvent &event : events.take()) {
        if (managed != nullptr) {
            *managed = event.type == UCS_MEMORY_TYPE_CUDA_MANAGED;
        }
        if ((address >= event.address) &&
            (address - event.address < event.size)) {
            there = !event.free;
            *frees += event.free;
        }
    }
    return there;
}

/** Runs a scenario without UCX's modules, so without UCX's CUDA hooks. */
inline bool run_on_fake(const char *scenario, const char *setting = "UNUSED=1")
{
    return run_scenario(scenario, {"UCX_MODULES=^cuda", setting});
}

/** A scenario on the fake driver, and the test that runs it. */
#define FAKE_TEST(_suite, _name, ...)                                          \
    TEST(_suite, _name)                                                        \
    {                                                                          \
        EXPECT_TRUE(run_on_fake(#_name __VA_OPT__(, ) __VA_ARGS__));           \
    }                                                                          \
    SCENARIO(_name)

} // namespace ucx_ib_dmabuf::test
