// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <atomic>
#include <common/elsewhere.h>
#include <fcntl.h>
#include <functional>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

// Code that a NIC calls after a deregistration uses the cache at once, in the
// same thread.
namespace {

class reentry_test : public cache_test {
protected:
    // The cache's calls go on in the child of a fork, which ends here.
    void expect_good_child(pid_t child, bool good)
    {
        if (child == 0) {
            _exit(good ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
};

// The whole range is registered while room is made for a part of it.
TEST_F(reentry_test, no_region_is_within_another)
{
    nic.limit(56 * MiB);
    gpu.alloc(B, 48 * MiB);
    for (uintptr_t at : {A, A + MiB, A + 2 * MiB}) {
        map(at, MiB);
    }
    map(A + 3 * MiB, 29 * MiB);
    use(B, 1);
    const region *whole = nullptr;
    nic.after_dereg     = [&] {
        cache->invalidate(B + 512 * MiB, 1); // refused ranges may fit now
        whole = hold(A + 20 * MiB, 1);
    };
    const region *part = hold(A + 4096, 1);
    EXPECT_EQ(part, whole);
    cache->put(part);
    cache->put(whole);

    release(A + MiB);
    map(A + MiB, MiB);
    EXPECT_EQ(cache->find(0, A, 2 * MiB), nullptr);
}

TEST_F(reentry_test, a_child_of_fork_starts_empty)
{
    gpu.alloc(A, MiB);
    gpu.alloc(B, MiB);
    use(A, 1);
    use(B, 1);
    pid_t child     = -1;
    nic.after_dereg = [&] { child = fork(); };
    cache->invalidate(0, SIZE_MAX);
    bool good = child != 0;
    if (!good) {
        good = counters().registered_bytes == 0 &&
               counters().mapped_bytes == 0 && counters().regions == 0 &&
               nic.live() == 1;
        cache->detach(0);
        fakes::nic mine(gpu);
        good &= cache->attach(mine) == 0 && get(A, 1) == UCS_OK;
        cache->detach(0);
    }
    expect_good_child(child, good);
}

// The child lacks the registering thread, so the dma-buf would stay open there.
// A dma-buf being created has no fd yet.
TEST_F(reentry_test, a_child_has_nothing_of_what_is_being_registered)
{
    const int open    = count_fds();
    const auto forker = [this](int expected) {
        EXPECT_TRUE(in_child([&] {
            bool good = count_fds() == expected;
            fakes::nic mine(gpu);
            const auto own = cache->attach(mine);
            good &= get(A, 1) == UCS_ERR_NO_DEVICE &&
                    get(B, 1, normal, own) == UCS_OK && counters().regions == 1;
            cache->detach(own);
            return good && count_fds() == expected;
        }));
    };
    gpu.alloc(A, MiB);
    gpu.alloc(B, MiB);
    gpu.during_export = [&] { std::thread(forker, open + 1).join(); };
    use(A, 1);
    cache->invalidate(A, MiB);
    nic.during_reg = [&] { std::thread(forker, open).join(); };
    use(A, 1);
}

// Its dma-buf is closed already, and another file has the number.
TEST_F(reentry_test, a_child_of_the_registering_thread_closes_nothing_else)
{
    gpu.alloc(A, MiB);
    pid_t child    = -1;
    int file       = -1;
    nic.during_reg = [&] {
        child = fork();
        file  = child == 0 ? open("/dev/zero", O_RDONLY) : -1;
    };
    use(A, 1);
    expect_good_child(child, fcntl(file, F_GETFD) >= 0);
}

// Another thread has the cache's lock at most of these forks.
TEST_F(reentry_test, a_child_waits_for_no_lock_of_its_parent)
{
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) {
            cache->find(0, B, 1);
        }
    });
    for (int i = 0; i < 100 && !HasFailure(); ++i) {
        EXPECT_TRUE(in_child([this] {
            alarm(60); // ends a deadlock
            return cache->find(0, A, 1) == nullptr;
        }));
    }
    stop = true;
    other.join();
}

// Runs in the middle of a fork, while other threads run. The kernel copies the
// descriptors before the memory.
std::function<void()> during_fork;

// Registered before the cache's handlers, so it runs within their locks.
const int handled = pthread_atfork(
    [] {
        if (during_fork) {
            during_fork();
        }
    },
    nullptr, nullptr);

// A releasing thread reads under the lock of UCX's events. A child forked then
// could never write that lock, and would hang at its end.
TEST_F(reentry_test, a_release_waits_for_no_fork)
{
    ASSERT_EQ(handled, 0);
    gpu.alloc(A, MiB);
    during_fork = [&] { std::thread([&] { cache->release(A, MiB); }).join(); };
    alarm(60); // ends a deadlock
    EXPECT_TRUE(in_child([] { return true; }));
    alarm(0);
    during_fork = nullptr;
}

class watched_nic : public fakes::nic {
public:
    using nic::nic;

    ucs_status_t reg(ucx_ib_dmabuf::dmabuf_exports &memory, int device,
                     uintptr_t address, size_t length, void **handle) override
    {
        int fd = -1;
        EXPECT_EQ(memory.get(ucx_ib_dmabuf::mapping_type::standard, &fd),
                  UCS_OK);
        known = fd;
        while (!go_on) {
            std::this_thread::yield();
        }
        return nic::reg(memory, device, address, length, handle);
    }

    std::atomic<int> known{-1};
    std::atomic<bool> go_on{false};
};

// Another thread closes its dma-buf during the fork, which takes no lock. If
// the descriptors were copied before, the child has the dma-buf, and closes it.
// It closes no other file with that number.
TEST_F(reentry_test, a_dmabuf_is_closed_during_a_fork)
{
    const struct {
        const char *reopened; // the fakes' dma-bufs are /dev/null
        bool child_has_it;
    } cases[] = {{nullptr, false}, {"/dev/null", false}, {"/dev/zero", true}};
    ASSERT_EQ(handled, 0);
    gpu.alloc(A, MiB);
    for (const auto &[reopened, child_has_it] : cases) {
        watched_nic slow(gpu);
        const auto own = cache->attach(slow);
        std::thread other([&] { use(A, 1, own); });
        while (slow.known < 0) {
            std::this_thread::yield();
        }
        during_fork = [&] {
            slow.go_on = true;
            other.join();
            EXPECT_LT(fcntl(slow.known, F_GETFD), 0);
            if (reopened != nullptr) {
                const int file = open(reopened, O_RDONLY);
                EXPECT_EQ(dup2(file, slow.known), slow.known);
                EXPECT_TRUE(file == slow.known || close(file) == 0);
            }
        };
        alarm(60); // ends a deadlock
        EXPECT_TRUE(in_child(
            [&] { return (fcntl(slow.known, F_GETFD) >= 0) == child_has_it; }));
        alarm(0);
        during_fork = nullptr;
        EXPECT_EQ(close(slow.known) == 0, reopened != nullptr);
        cache->detach(own);
    }
}

} // namespace
