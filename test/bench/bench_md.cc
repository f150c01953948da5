// SPDX-License-Identifier: BSD-3-Clause
//
// What UCX pays for memory that is registered already: mem_reg and mem_dereg of
// the memory domain, of GPU memory by the plug-in and of host memory by uct_ib,
// in turns on one domain.
//
// Real: uct_ib and its ucs_rcache, as UCX built them and with their default
// settings and events; their functions are called without the plug-in's in
// front. The plug-in: decoration, cache, events, the hooks in libcuda. Not
// real: libcuda (test/cuda_sim), which a hit does not call, and libibverbs
// (fake_verbs.cc), which neither calls for what is registered. So registering
// costs nothing like the truth here, and is not measured.
#include "instructions.h"
#include "uct_domain.h"
#include <algorithm>
#include <barrier>
#include <chrono>
#include <common/gpu.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

unsigned long fake_verbs_registered();

namespace {

constexpr size_t mib    = size_t{1} << 20;
constexpr size_t stride = 2 * mib;  // between buffers, and a GPU buffer's size
constexpr size_t length = 64 << 10; // registered and used: of each the first

// Registered buffers, in random order, and who registers them.
struct subject {
    uct_domain::functions with;
    std::vector<uintptr_t> addresses;
};

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "bench_md: %s\n", what);
    exit(2);
}

// The domain's own addresses for hosts' buffers; nobody touches their pages.
std::vector<uintptr_t> host_buffers(size_t count)
{
    void *memory = mmap(nullptr, count * stride, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fail("no addresses for so much host memory");
    }
    std::vector<uintptr_t> result(count);
    for (size_t i = 0; i < count; ++i) {
        result[i] = reinterpret_cast<uintptr_t>(memory) + i * stride;
    }
    return result;
}

std::vector<uintptr_t> gpu_buffers(size_t count)
{
    std::vector<uintptr_t> result(count);
    for (uintptr_t &address : result) {
        CUdeviceptr allocated = 0;
        GPU_CALL(cuMemAlloc, &allocated, stride);
        address = allocated;
    }
    return result;
}

// Registers and gives back each of them.
void use_buffers(uct_md_h md, const uct_domain::functions *with,
                 const uintptr_t *addresses, size_t count)
{
    uct_md_mem_dereg_params_t params{};
    uct_md_mem_reg_params_t how{};
    params.field_mask = ucx_ib_dmabuf::UCT_MD_MEM_DEREG_FIELD_MEMH;
    how.field_mask    = ucx_ib_dmabuf::UCT_MD_MEM_REG_FIELD_FLAGS;
    how.flags         = ucx::access_rma;

    for (size_t i = 0; i < count; ++i) {
        if (with->reg(md, reinterpret_cast<void *>(addresses[i]), length, &how,
                      &params.memh) != UCS_OK) {
            fail("mem_reg failed");
        }
        if (with->dereg(md, &params) != UCS_OK) {
            fail("mem_dereg failed");
        }
    }
}

double seconds(clockid_t clock)
{
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) +
           static_cast<double>(now.tv_nsec) * 1e-9;
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Threads that go through one subject's buffers, each from another one on.
class team {
public:
    team(uct_md_h md, unsigned threads, size_t pairs)
        : md_(md), pairs_(pairs), start_(threads), done_(threads)
    {
        for (unsigned i = 1; i < threads; ++i) {
            others_.emplace_back([this, i] { follow(i); });
        }
    }
    ~team()
    {
        subject_ = nullptr;
        start_.arrive_and_wait();
    }
    team(const team &)            = delete;
    team &operator=(const team &) = delete;

    // Nanoseconds for a pair. One thread's own time, so that others on the
    // machine disturb less; the time until the last is ready of several.
    double measure(const subject &whose)
    {
        const clockid_t clock =
            others_.empty() ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
        subject_ = &whose;
        start_.arrive_and_wait();
        const double begin = seconds(clock);
        work(0);
        done_.arrive_and_wait();
        return (seconds(clock) - begin) * 1e9 / static_cast<double>(pairs_);
    }

private:
    void follow(unsigned index)
    {
        for (;;) {
            start_.arrive_and_wait();
            if (subject_ == nullptr) {
                return;
            }
            work(index);
            done_.arrive_and_wait();
        }
    }
    void work(unsigned index)
    {
        const std::vector<uintptr_t> &all = subject_->addresses;
        size_t at = index * all.size() / (others_.size() + 1);
        for (size_t left = pairs_; left > 0;) {
            const size_t count = std::min(left, all.size() - at);
            use_buffers(md_, &subject_->with, &all[at], count);
            left -= count;
            at = 0;
        }
    }

    const uct_md_h md_;
    const size_t pairs_;
    const subject *subject_ = nullptr;
    std::barrier<> start_, done_;
    std::vector<std::jthread> others_;
};

struct options {
    size_t regions              = 1000;
    size_t pairs                = 0; // in each turn; at least the regions
    unsigned rounds             = 7;
    std::vector<unsigned> teams = {1};
    bool instructions           = false; // are counted; no times
};

bool read_option(const std::string &name, char *value, options *out)
{
    const auto number = strtoull(value, nullptr, 10);

    if (number == 0) {
        return false;
    } else if (name == "--regions") {
        out->regions = number;
    } else if (name == "--pairs") {
        out->pairs = number;
    } else if (name == "--rounds") {
        out->rounds = static_cast<unsigned>(number);
    } else if (name == "--instructions") {
        out->instructions = true;
        out->pairs        = number;
    } else if (name == "--threads") {
        out->teams.clear();
        for (char *at = value; *at != '\0'; at += *at == ',') {
            out->teams.push_back(static_cast<unsigned>(strtoul(at, &at, 10)));
        }
    } else {
        return false;
    }
    return true;
}

options read_options(int argc, char **argv)
{
    options result;

    for (int i = 1; i < argc; i += 2) {
        if ((i + 1 == argc) || !read_option(argv[i], argv[i + 1], &result)) {
            fail("usage: bench_md [--regions N] [--pairs N] [--rounds N] "
                 "[--threads N,...] | [--instructions PAIRS]");
        }
    }
    return result;
}

// A domain with everything registered.
struct setting {
    explicit setting(size_t regions)
        : plugin{domain.decorated(), gpu_buffers(regions)},
          uct_ib{domain.original(), host_buffers(regions)}
    {
        for (subject *one : {&plugin, &uct_ib}) {
            use_buffers(domain.get(), &one->with, one->addresses.data(),
                        regions);
            std::shuffle(one->addresses.begin(), one->addresses.end(),
                         std::mt19937_64(1));
        }
    }

    uct_domain domain;
    subject plugin, uct_ib;
};

// Nothing was registered since then: the user's settings may take the cache
// away from uct_ib, which would be no peer then.
void expect_hits(unsigned long registered)
{
    if (fake_verbs_registered() != registered) {
        fail("memory was registered anew while hits were measured: a cache is "
             "off, or limited (UCX_IB_REG_METHODS, UCX_IB_RCACHE_*, "
             "UCX_MEM_*, UCX_IB_DMABUF_*)");
    }
}

// REGIONS THREADS NANOSECONDS(plug-in) NANOSECONDS(uct_ib)
void print_times(const options &asked)
{
    const setting all(asked.regions);
    const size_t pairs = std::max(asked.pairs, asked.regions);

    for (unsigned threads : asked.teams) {
        team workers(all.domain.get(), threads, pairs);
        std::vector<double> plugin, uct_ib;
        const unsigned long registered = fake_verbs_registered();
        workers.measure(all.plugin); // to warm up
        workers.measure(all.uct_ib);
        for (unsigned round = 0; round < asked.rounds; ++round) {
            plugin.push_back(workers.measure(all.plugin));
            uct_ib.push_back(workers.measure(all.uct_ib));
        }
        expect_hits(registered);
        printf("%zu %u %.2f %.2f\n", asked.regions, threads, median(plugin),
               median(uct_ib));
        fflush(stdout);
    }
}

// "instructions" COUNT(plug-in) COUNT(uct_ib), of a pair.
void print_instructions(const options &asked)
{
    const auto counts = count_instructions([&] {
        const setting all(asked.regions);
        const unsigned long registered = fake_verbs_registered();
        for (const subject *one : {&all.plugin, &all.uct_ib}) {
            for (size_t pairs : {asked.pairs, asked.pairs, size_t{0}}) {
                count_mark();
                use_buffers(all.domain.get(), &one->with, one->addresses.data(),
                            pairs);
            }
        }
        count_mark();
        expect_hits(registered);
        _exit(0); // the end would be counted, too, and takes long
    });
    // Of each: to warm up, the pairs, none.
    const auto of = [&](size_t first) {
        return static_cast<double>(counts.at(first) - counts.at(first + 1)) /
               static_cast<double>(asked.pairs);
    };
    printf("instructions %.1f %.1f\n", of(1), of(4));
}

} // namespace

int main(int argc, char **argv)
{
    const options asked = read_options(argc, argv);

    // As much memory as there are buffers, all of which may be registered.
    setenv("CUDA_SIM_MEMORY_MIB", "4194304", 1);
    setenv("CUDA_SIM_BAR1_MIB", "1048576", 1);
    setenv("UCX_IB_DMABUF_MAX_SIZE", "inf", 1);
    if (asked.instructions) {
        print_instructions(asked);
    } else {
        print_times(asked);
    }
    return 0;
}
