// SPDX-License-Identifier: BSD-3-Clause
#include "alone.h"
#include <common/alloc_faults.h>
#include <common/linked_ucx.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {

void run_alone(void (*body)(), const std::vector<std::string> &environment)
{
    const testing::TestInfo &test =
        *testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter = std::string("--gtest_filter=") +
                               test.test_suite_name() + "." + test.name();

    if (!variable("TEST_RUNS_ALONE").empty()) {
        GTEST_FLAG_SET(break_on_failure, true);
        use_linked_ucx();
        body();
        exit(testing::Test::HasFailure());
    }
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        for (const std::string &setting : environment) {
            putenv(strdup(setting.c_str()));
        }
        setenv("TEST_RUNS_ALONE", "1", 1);
        // UCM's hook of madvise locks in threads that have almost ended, where
        // TSan crashes. These tests need no events of host memory.
        setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
        // TSan would warn of UCM's own hooks: they call the driver with a lock
        // that others take under the driver's lock. All of them only read.
        const std::string options =
            variable("TSAN_OPTIONS") + ":detect_deadlocks=0";
        setenv("TSAN_OPTIONS", options.c_str(), 1);
        // Standard output belongs to the tests.
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl("/proc/self/exe", "alone", filter.c_str(), "--gtest_brief=1",
              nullptr);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

Events::Events(std::function<long()> observer, const ucm_functions &from,
               int flags)
    : observer_(std::move(observer)), from_(from),
      status_(from.set_event_handler(events | flags, 0, handle, this))
{
}

Events::~Events()
{
    using unset = void(int, ucm_event_callback_t, void *);
    library::around(reinterpret_cast<void *>(from_.set_event_handler))
        .symbol<unset>("ucm_unset_event_handler")(events, handle, this);
}

void Events::handle(ucm_event_type_t type, ucm_event_t *event, void *arg)
{
    const alloc_faults::exempt from_it;
    auto *self           = static_cast<Events *>(arg);
    const long answer    = self->observer_ ? self->observer_() : 0;
    const auto &memory   = event->mem_type;
    const SeenEvent seen = {type == UCM_EVENT_MEM_TYPE_FREE,
                            reinterpret_cast<uint64_t>(memory.address),
                            memory.size, answer, memory.mem_type};

    const std::lock_guard guard(self->lock_);
    self->seen_.push_back(seen);
}

std::vector<SeenEvent> Events::take()
{
    const alloc_faults::exempt from_it;
    const std::lock_guard guard(lock_);
    return std::exchange(seen_, {});
}

size_t Events::frees_of(uint64_t address)
{
    const alloc_faults::exempt from_it;
    size_t count = 0;
    for (const SeenEvent &event : take()) {
        count += event.free && ((event.size == 0) || event.covers(address));
    }
    return count;
}

bool Events::saw_everything()
{
    bool result = false;
    for (const SeenEvent &event : take()) {
        result |= event.free && (event.address == 0) && (event.size == 0);
    }
    return result;
}

void *open_library(const std::string &path)
{
    void *library = dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL);
    if (library == nullptr) {
        throw std::runtime_error(dlerror());
    }
    return library;
}

void *symbol_of(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (symbol == nullptr) {
        throw std::runtime_error(name);
    }
    return symbol;
}

bool ucx_hooks_loaded()
{
    return dlopen("libucm_cuda.so.0", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
}

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return (value == nullptr) ? "" : value;
}

} // namespace ucx_ib_dmabuf::test

int main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
