// SPDX-License-Identifier: BSD-3-Clause
//
// The counters of each NIC and GPU, compared with the devices' own counts,
// while threads register, fail, release and fork at random. COUNTS_SEED repeats
// a run, except for the threads' timing.
#include "fake_domain.h"
#include <array>
#include <atomic>
#include <cerrno>
#include <common/elsewhere.h>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <uct/ib_dmabuf/md/process_state.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <unistd.h>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

constexpr int gpus = 3, users = 3, steps = 1000;
constexpr std::array nics{"fake0", "fake1", "fake\"2"};

using domains = std::array<std::unique_ptr<fake_domain>, nics.size()>;

// A thread's random steps. The destructor deregisters its handles.
class user {
public:
    user(const domains &all, unsigned seed) : all_(all), random_(seed) {}
    ~user()
    {
        while (!handles_.empty()) {
            give_back();
        }
    }

    void step()
    {
        switch (any(6)) {
        case 0:
            gpu::use(static_cast<int>(any(gpus)));
            memory_[any(memory_.size())] =
                std::make_unique<gpu::buffer>((1 + any(4)) << 20);
            break;
        case 1:
            memory_[any(memory_.size())].reset(); // also while it is in use
            break;
        case 2:
            give_back();
            break;
        default:
            reg();
        }
    }

private:
    struct handle {
        fake_domain *domain;
        uct_mem_h memh;
    };

    size_t any(size_t end) { return random_() % end; }

    void reg()
    {
        constexpr std::array<unsigned, 3> flags{
            ucx::access_rma, ucx::access_all,
            ucx::access_rma | ucx::hide_errors};
        const auto &memory = memory_[any(memory_.size())];
        handle made{all_[any(all_.size())].get(), nullptr};
        uint32_t key = 0;

        if (memory &&
            (made.domain->reg(memory->address() + any(memory->size() / 2),
                              1 + any(memory->size() / 2), &made.memh,
                              flags[any(flags.size())]) == UCS_OK)) {
            handles_.push_back(made);
            made.domain->pack(made.memh, (any(3) == 0) ? ucx::invalidate : 0,
                              &key);
        }
    }
    void give_back()
    {
        if (!handles_.empty()) {
            std::swap(handles_[any(handles_.size())], handles_.back());
            handles_.back().domain->dereg(handles_.back().memh);
            handles_.pop_back();
        }
    }

    const domains &all_;
    std::mt19937 random_;
    std::array<std::unique_ptr<gpu::buffer>, 6> memory_;
    std::vector<handle> handles_;
};

// A child finds no lock taken, and counts from zero even after it has
// invalidated its parent's handle. The parent looks for its page: a sanitizer
// forbids allocations there.
bool child_counts_nothing(const domains &all, uct_mem_h parents)
{
    const pid_t child = fork();
    int status        = -1;

    if (child == 0) {
        bool nothing = true;
        completion told;
        alarm(60); // ends a deadlock
        all[0]->invalidate(parents, &told);
        process_counters.each_pair([&](const pair_row &) { nothing = false; });
        raise(SIGSTOP);
        _exit(nothing ? 0 : 1);
    }
    EXPECT_EQ(child, waitpid(child, &status, WUNTRACED));
    const bool no_page = WIFSTOPPED(status) && !read_live(child);
    kill(child, SIGCONT);
    EXPECT_EQ(child, waitpid(child, &status, 0));
    return no_page && (status == 0);
}

void expect_what_devices_saw()
{
    std::map<std::string, fake_ib::dmabufs> counted;
    uint64_t evictions = 0, invalidations = 0, failures = 0;

    process_counters.each_pair([&](const pair_row &row) {
        fake_ib::dmabufs &sum = counted[std::string(row.nic)];
        sum.made += row.get("registrations");
        sum.ended += row.get("deregistrations");
        sum.bytes += row.get("path_bytes"); // "standard"
        evictions += row.get("evictions");
        invalidations += row.get("invalidations");
        failures += row.get("failures");
        EXPECT_EQ(0u, row.get("regions")) << row.gpu;
        EXPECT_EQ(0u, row.get("registered_bytes")) << row.gpu;
        EXPECT_EQ(row.get("registrations"), row.get("deregistrations"));
    });
    for (const auto &[device, seen] : fake_ib::now.of_device) {
        EXPECT_EQ(seen.made, counted[device].made) << device;
        EXPECT_EQ(seen.ended, counted[device].ended) << device;
        EXPECT_EQ(seen.bytes, counted[device].bytes) << device;
    }
    EXPECT_EQ(nics.size(), counted.size());
    EXPECT_GT(evictions, 0u);
    EXPECT_GT(invalidations, 0u);
    EXPECT_GT(failures, 0u);
}

// Runs in a child, as a process reads its settings once.
TEST(test_counts, with_a_limit_of_nothing_no_gpu_memory_is_offered)
{
    for (const char *limit :
         {"UCX_IB_DMABUF_MAX_SIZE", "UCX_IB_DMABUF_MAX_REGIONS"}) {
        EXPECT_TRUE(in_child([limit] {
            setenv(limit, "0", 1);
            gpu::use();
            return !fake_domain().takes_cuda();
        })) << limit;
    }
}

// UCX's parser knows "auto" for each number of its kind.
TEST(test_counts, a_number_of_regions_that_is_auto_is_no_limit)
{
    EXPECT_TRUE(in_child([] {
        setenv("UCX_IB_DMABUF_MAX_REGIONS", "auto", 1);
        gpu::use();
        const fake_domain domain;
        return !process_state::existing()->registrations().checks_each_use();
    }));
}

TEST(test_counts, each_pair_has_what_its_device_saw)
{
    const char *given   = getenv("COUNTS_SEED");
    const unsigned seed = (given != nullptr)
                              ? static_cast<unsigned>(atoi(given))
                              : std::random_device()();
    std::atomic<int> running{users};
    std::vector<std::thread> threads;
    domains all;

    printf("COUNTS_SEED=%u\n", seed);
    setenv("CUDA_SIM_DEVICES", std::to_string(gpus).c_str(), 1);
    setenv("UCX_IB_DMABUF_MAX_SIZE", "8m", 1);
    gpu::use();
    ucx::use_memtype_cache(false);
    ucx::set_log_level("fatal");
    fake_ib::now.fail_verbs = ENOMEM;
    fake_ib::now.fail_every = 7;
    for (size_t i = 0; i < nics.size(); ++i) {
        all[i] = std::make_unique<fake_domain>(nics[i]);
    }
    for (int i = 0; i < users; ++i) {
        threads.emplace_back([&, mine = seed + static_cast<unsigned>(i)] {
            gpu::use();
            user self(all, mine);
            for (int step = 0; step < steps; ++step) {
                self.step();
            }
            --running;
        });
    }
    {
        const gpu::buffer memory(4096);
        bool good = true;
        while ((running > 0) && good) {
            uct_mem_h memh = nullptr;
            uint32_t key   = 0;
            if (all[0]->reg(memory.address(), 4096, &memh, ucx::hide_errors) !=
                UCS_OK) {
                continue;
            }
            all[0]->pack(memh, ucx::invalidate, &key);
            good = child_counts_nothing(all, memh);
            EXPECT_TRUE(good);
            EXPECT_EQ(UCS_OK, all[0]->dereg(memh));
            process_counters.each_pair([](const pair_row &row) {
                EXPECT_LT(row.get("regions"), 1u << 20);
                EXPECT_LT(row.get("registered_bytes"), uint64_t{1} << 40);
            });
        }
    }
    for (std::thread &each : threads) {
        each.join();
    }
    all = {};
    expect_what_devices_saw();
}

} // namespace
