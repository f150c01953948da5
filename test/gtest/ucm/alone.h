// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <mutex>
#include <string>
#include <ucm/cuda_events.h>
#include <uct/ib_dmabuf/ucx/ucm.h>
#include <vector>

/**
 * Hooks are installed once and for good, so each of their tests runs in a
 * process of its own: the test program again, with that test alone.
 */
namespace ucx_ib_dmabuf::test {

/** Calls a body in a new process with more environment, as a part of the
 *  current test. A failed expectation there ends the process. */
void run_alone(void (*body)(), const std::vector<std::string> &environment);

/** A suite's parameter: whether UCX's own CUDA hooks are installed, too. */
#define WITH_AND_WITHOUT_UCX(_suite)                                           \
    INSTANTIATE_TEST_SUITE_P(                                                  \
        Hooks, _suite, testing::Bool(),                                        \
        [](const auto &test) { return test.param ? "WithUcx" : "Alone"; })

/** An event as its handler saw it. */
struct SeenEvent {
    bool free; /**< else an allocation */
    uint64_t address;
    size_t size;
    long context; /**< the observer's result at that moment */
    ucs_memory_type_t type = UCS_MEMORY_TYPE_CUDA;

    bool covers(uint64_t at) const { return at - address < size; }
};

/** Subscribes to a UCM's memory type events and records them. Lacks no memory
 *  where a test refuses allocations. */
class Events {
public:
    /** @param observer  Called at each event, which records its result.
     *  @param flags     Without NO_INSTALL, the UCM installs its hooks. */
    explicit Events(std::function<long()> observer = nullptr,
                    const ucm_functions &from      = *all_ucm().front(),
                    int flags                      = UCM_EVENT_FLAG_NO_INSTALL);
    ~Events();
    Events(const Events &)            = delete;
    Events &operator=(const Events &) = delete;

    /** Whether the UCM could install its hooks. */
    bool subscribed() const { return status_ == UCS_OK; }

    /** Returns the events since the last call. */
    std::vector<SeenEvent> take();

    /** These look at the events since the last take(), and take them: how many
     *  free events cover a byte, among them those of everything, and whether
     *  everything was announced. */
    size_t frees_of(uint64_t address);
    bool saw_everything();

private:
    static void handle(ucm_event_type_t type, ucm_event_t *event, void *arg);

    static constexpr int events =
        UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE;
    const std::function<long()> observer_;
    const ucm_functions &from_;
    ucs_status_t status_;
    std::mutex lock_;
    std::vector<SeenEvent> seen_;
};

/** Opens a library with global symbols; ends the process on failure. */
void *open_library(const std::string &path);

/** Returns a symbol of a library; ends the process if there is none. */
void *symbol_of(void *library, const char *name);

/** Returns a function of a library, as symbol_of() does. */
template <class Function>
Function *function_of(void *library, const char *name)
{
    return reinterpret_cast<Function *>(symbol_of(library, name));
}

/** Returns whether UCX's own CUDA hooks are in this process. */
bool ucx_hooks_loaded();

/** Returns an environment variable, or "" if it is not set. */
std::string variable(const char *name);

inline void install_all()
{
    EXPECT_EQ(cuda_events_install(), UCS_OK);
    EXPECT_EQ(ucx_hooks_loaded(), variable("UCX_MODULES").empty());
    EXPECT_EQ(cuda_events_missing(), std::string());
    EXPECT_TRUE(cuda_events_complete());
}

} // namespace ucx_ib_dmabuf::test
