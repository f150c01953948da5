// SPDX-License-Identifier: BSD-3-Clause
//
// Storms: allocations of all kinds and sizes are made and freed at random,
// between messages of random parts of them; in one thread, in several, and
// between forks.
#include "job.h"
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {
namespace {

// Returns the number of messages in a storm. MPI_TESTS_STORM overrides it.
int storm_messages()
{
    const char *set = std::getenv("MPI_TESTS_STORM");
    const int count = (set == nullptr) ? 0 : std::atoi(set);

    return (count > 0) ? count : 2500;
}

class storm {
public:
    explicit storm(job &in) : in_(in) {}

    // Sends the next message; both ranks draw the same one.
    void step()
    {
        const memory kinds[] = {memory::device, memory::device, memory::pool,
                                memory::vmm};
        auto &slot           = slots_[in_.random() % 6];
        const memory kind    = kinds[in_.random() % 4];
        const size_t size    = (2 * rendezvous) << in_.random() % 4;
        const bool renew     = in_.random() % 2 || !slot;
        const int sender     = static_cast<int>(in_.random() % 2);
        const uint64_t start = in_.random();

        if (renew) {
            slot.reset();
            slot = std::make_unique<buffer>(kind, size);
        }
        const size_t count  = rendezvous + start % (slot->size() / 2);
        const size_t offset = start % (slot->size() - count + 1);
        in_.one_way(slot->at(offset), slot->kind(), count, sender);
    }

    // Returns the memory of a slot, or nullptr.
    const buffer *any() const { return slots_[0].get(); }

private:
    job &in_;
    std::unique_ptr<buffer> slots_[6];
};

void run_storm(job &in, memory, memory)
{
    storm one(in);

    for (int i = 0; i < storm_messages(); ++i) {
        one.step();
    }
}

// Each thread has memory and messages of its own.
void run_threads(job &in, memory, memory)
{
    constexpr int count = 3;
    std::vector<job> jobs;
    std::vector<std::thread> threads;

    for (int i = 0; i < count; ++i) {
        jobs.push_back(in.for_thread(i));
    }
    for (job &one : jobs) {
        threads.emplace_back([&one, device = gpu::current()] {
            gpu::use(device);
            storm mine(one);
            for (int i = 0; i < storm_messages() / count; ++i) {
                mine.step();
            }
        });
    }
    for (std::thread &one : threads) {
        one.join();
    }
    for (const job &one : jobs) {
        in.join(one);
    }
}

// In a child all CUDA calls must fail, also on memory of the parent.
[[noreturn]] void run_child(const buffer *of_parent)
{
    CUdeviceptr mine = 0;
    bool refused     = GPU_TRY(cuMemAlloc, &mine, 4096) != CUDA_SUCCESS;

    if (of_parent && is_device(of_parent->kind())) {
        refused =
            refused && GPU_TRY(cuMemFree, of_parent->address()) != CUDA_SUCCESS;
    }
    _exit(refused ? 0 : 1);
}

void run_fork(job &in, memory, memory)
{
    storm one(in);
    pid_t child = 0;

    for (int i = 0; i < storm_messages(); ++i) {
        one.step();
        if (i % 16 == 3) {
            child = fork();
            if (child == 0) {
                run_child(one.any());
            }
            in.expect(child > 0, "fork failed");
        } else if (i % 16 == 9 && child > 0) {
            int status = 0;
            waitpid(child, &status, 0);
            in.expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                      "a child came to harm: status " + std::to_string(status));
            child = 0;
        }
    }
    if (child > 0) {
        waitpid(child, nullptr, 0);
    }
}

} // namespace

void add_storm(case_list &cases)
{
    cases.add("storm", "storm of allocations", run_storm);
    // The copies of one thread's checks would be counted in another thread.
    cases.add("threads", "storm of allocations in threads", run_threads,
              memory::device, staging::any);
    cases.add("fork", "storm of allocations and children", run_fork);
}

} // namespace ucx_ib_dmabuf::test
