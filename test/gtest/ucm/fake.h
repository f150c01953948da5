// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "alone.h"
#include <functional>

/** Access to fake_cuda.c for the tests. */
namespace ucx_ib_dmabuf::test {

constexpr uint64_t ADDRESS = 0x7f2000000000;
constexpr uint64_t NEW     = 0x7f0000000000; // the fake's first allocation
constexpr size_t SIZE      = 0x10000;        // reported size of older memory
constexpr size_t NEW_SIZE  = 0x5000;         // size of new allocations
constexpr uint64_t POOL = 0xabc0, MODULE = 0x77, LIBRARY = 0x90;

using Query = int (*)(uint64_t);

/** The type that makes UCX query the driver. */
inline ucs_memory_type_t any_type()
{
    return all_ucm().front()->unknown_type;
}

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
    explicit Fake(const std::string &folder = "fake")
        : library(open_fake(folder + "/libcuda.so.1")),
          calls_(
              function_of<unsigned long(const char *)>(library, "fake_calls"))
    {
    }

    template <class Function>
    Function *get(const char *name) const
    {
        return function_of<Function>(library, name);
    }

    /** Calls a function of numbers and pointers. */
    template <class... Args>
    int call(const char *name, Args... args) const
    {
        return get<int(decltype(word(args))...)>(name)(word(args)...);
    }

    /** Allocates memory. @return Its address. */
    uint64_t allocate() const
    {
        uint64_t address = 0;
        call("cuMemAlloc_v2", &address, NEW_SIZE);
        return address;
    }
    uint64_t allocate_from(uint64_t pool, size_t size = NEW_SIZE) const
    {
        uint64_t address = 0;
        call("cuMemAllocFromPoolAsync", &address, size, pool, 0);
        return address;
    }
    uint64_t allocate_async(uint64_t stream = 0) const
    {
        uint64_t address = 0;
        call("cuMemAllocAsync", &address, NEW_SIZE, stream);
        return address;
    }
    /** Looks up a variable of a module. @return The driver's answer. */
    int get_global(uint64_t module) const
    {
        uint64_t address;
        size_t size;
        return call("cuModuleGetGlobal_v2", &address, &size, module, "a");
    }
    uint64_t get_module(uint64_t of_library) const
    {
        uint64_t module = 0;
        call("cuLibraryGetModule", &module, of_library);
        return module;
    }

    template <class Type = int>
    Type &setting(const char *name) const
    {
        return *static_cast<Type *>(symbol_of(library, name));
    }

    /** Sets the driver's answers about addresses; nullptr restores its own. */
    void set_query(Query query) const { setting<Query>("fake_query") = query; }

    long calls(const char *name) const { return long(calls_(name)); }

    /** Sets the next allocation's address; others follow a step apart. */
    void place(uint64_t address, size_t step) const
    {
        setting<size_t>("fake_step") = step;
        setting<uint64_t>("fake_allocations") =
            (step == 0) ? 0 : (address - NEW) / step;
    }

    void *library;

private:
    template <class Type>
    static uint64_t word(Type *pointer)
    {
        return reinterpret_cast<uint64_t>(pointer);
    }
    static uint64_t word(uint64_t number) { return number; }

    unsigned long (*calls_)(const char *);
};

/** The variable that any module of the fake has. */
constexpr uint64_t VARIABLE    = 0x7f1000000000;
constexpr size_t VARIABLE_SIZE = 0x400;

/** Expects that a call announces a range before it enters the driver's function
 *  of that name, and nothing else. */
inline void expect_release(const Fake &fake, const char *name, uint64_t address,
                           size_t size, const std::function<void()> &call)
{
    const long before = fake.calls(name);
    Events events([&] { return fake.calls(name); });
    call();
    const auto seen = events.take();
    EXPECT_EQ(fake.calls(name), before + 1);
    EXPECT_EQ(seen.size(), 1u) << name;
    EXPECT_TRUE(seen[0].free);
    EXPECT_EQ(seen[0].address, address);
    EXPECT_EQ(seen[0].size, size);
    EXPECT_EQ(seen[0].context, before);
    EXPECT_EQ(int(seen[0].type), std::string(name) == "cuMemFreeHost"
                                     ? int(UCS_MEMORY_TYPE_HOST)
                                     : int(UCS_MEMORY_TYPE_CUDA));
}

/** The same of a call with these arguments. */
template <class... Args>
void expect_release_by(const Fake &fake, const char *name, uint64_t address,
                       size_t size, Args... args)
{
    expect_release(fake, name, address, size,
                   [&] { fake.call(name, args...); });
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
        if (event.covers(address)) {
            there = !event.free;
            *frees += event.free;
        }
    }
    return there;
}

/** The environment of tests without UCX's modules, so without UCX's CUDA hooks.
 */
#define WITHOUT_UCX_HOOKS "UCX_MODULES=^cuda"

/** A test on the fake driver, in a process of its own. */
#define FAKE_TEST(_suite, _name)                                               \
    static void alone_##_name();                                               \
    TEST(_suite, _name)                                                        \
    {                                                                          \
        run_alone(alone_##_name, {WITHOUT_UCX_HOOKS});                         \
    }                                                                          \
    static void alone_##_name()

/** The same with installed hooks; the body's argument is the driver. */
#define HOOKED_TEST(_suite, _name)                                             \
    static void hooked_##_name(const Fake &fake);                              \
    FAKE_TEST(_suite, _name)                                                   \
    {                                                                          \
        const Fake fake;                                                       \
        install_all();                                                         \
        hooked_##_name(fake);                                                  \
    }                                                                          \
    static void hooked_##_name(const Fake &fake)

} // namespace ucx_ib_dmabuf::test
