// SPDX-License-Identifier: BSD-3-Clause
#include "fake_world.h"
#include "subject.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdio>
#include <random>
#include <sys/wait.h>
#include <uct/ib_dmabuf/cache/cache.h>
#include <unistd.h>
#include <vector>

// The registration cache beside ucs_rcache, in one process. Names are
// WHAT/SUBJECT/..., which test/bench/run reads.
namespace {

constexpr size_t KiB = 1024, MiB = 1024 * KiB;

std::unique_ptr<subject> make(bool peer, size_t stride)
{
    return peer ? make_rcache() : make_cache(stride);
}

// In random order, each as often as any other.
std::vector<uintptr_t> addresses(size_t count, size_t stride)
{
    std::vector<uintptr_t> result(count);
    for (size_t i = 0; i < count; ++i) {
        result[i] = fake_world::first + i * stride;
    }
    std::shuffle(result.begin(), result.end(), std::mt19937_64(1));
    return result;
}

size_t resident()
{
    size_t pages = 0, total = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != nullptr) {
        if (fscanf(file, "%zu %zu", &total, &pages) != 2) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Resident bytes for each of a million regions that are hit by one thread, in a
// process that has done nothing yet.
double memory_of(bool peer)
{
    constexpr size_t count = 1000000, stride = 2 * MiB;
    int ends[2];
    double result = 0;
    if (pipe(ends) != 0) {
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        auto all      = addresses(count, stride);
        size_t before = resident();
        auto cache    = make(peer, stride);
        cache->insert(fake_world::first, stride, stride, count);
        cache->hit(all.data(), count);
        result = static_cast<double>(resident() - before) / count;
        _exit(write(ends[1], &result, sizeof(result)) != sizeof(result));
    }
    if (read(ends[0], &result, sizeof(result)) != sizeof(result)) {
        result = 0;
    }
    waitpid(child, nullptr, 0);
    close(ends[0]);
    close(ends[1]);
    return result;
}

void memory(benchmark::State &state, double bytes)
{
    for ([[maybe_unused]] auto _ : state) {
    }
    state.counters["bytes"] = bytes;
}

// The CSV output wants the same counters of every benchmark, whichever is the
// first to end.
void no_memory(benchmark::State &state)
{
    state.counters["bytes"] = 0;
}

std::unique_ptr<subject> shared;

void hit(benchmark::State &state, bool peer, size_t count, size_t stride)
{
    std::vector<uintptr_t> all = addresses(count, stride);
    if (state.thread_index() == 0) {
        shared = make(peer, stride);
        shared->insert(fake_world::first, stride, stride, count);
    } else {
        std::rotate(all.begin(),
                    all.begin() + static_cast<ptrdiff_t>(count / 2), all.end());
    }
    for ([[maybe_unused]] auto _ : state) {
        shared->hit(all.data(), count);
    }
    if (state.thread_index() == 0) {
        shared.reset();
    }
    no_memory(state);
}

void churn(benchmark::State &state, bool peer, size_t count, size_t stride)
{
    auto cache = make(peer, stride);
    for ([[maybe_unused]] auto _ : state) {
        cache->churn(fake_world::first, stride, stride, count);
    }
    no_memory(state);
}

// What is no device memory, by the whole of get(); the exporter answers at
// once.
void host(benchmark::State &state)
{
    fake_world world(2 * MiB);
    ucx_ib_dmabuf::cache cache(world, {});
    auto nic                         = cache.attach(world);
    const ucx_ib_dmabuf::region *got = nullptr;
    for (int i = 0; i < 1000; ++i) {
        cache.get(nic, fake_world::first + i * 2 * MiB, 1, &got);
        cache.put(got);
    }
    uintptr_t address = 0x7f0000000000 >> 8;
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(cache.get(nic, address, 4096, &got));
        address += 4096;
    }
    no_memory(state);
}

// The event of a free of something that was never registered.
void unregistered(benchmark::State &state)
{
    fake_world world(2 * MiB);
    ucx_ib_dmabuf::cache cache(world, {});
    auto nic                         = cache.attach(world);
    const ucx_ib_dmabuf::region *got = nullptr;
    for (int i = 0; i < 1000; ++i) {
        cache.get(nic, fake_world::first + i * 2 * MiB, 1, &got);
        cache.put(got);
    }
    for ([[maybe_unused]] auto _ : state) {
        cache.invalidate(fake_world::first + 5000 * 2 * MiB, 2 * MiB);
    }
    no_memory(state);
}

void add(const char *what, bool peer, size_t count, size_t stride, int threads)
{
    std::string name = std::string(what) + (peer ? "/ucs_rcache" : "/cache") +
                       "/" + std::to_string(count) + "/" +
                       std::to_string(stride / KiB) + "K";
    bool hits = std::string(what) == "hit";
    benchmark::RegisterBenchmark(name.c_str(), hits ? hit : churn, peer, count,
                                 stride)
        ->Threads(threads)
        ->UseRealTime();
}

} // namespace

int main(int argc, char **argv)
{
    const double bytes[] = {memory_of(false), memory_of(true)};
    for (bool peer : {false, true}) {
        benchmark::RegisterBenchmark(
            peer ? "memory/ucs_rcache" : "memory/cache", memory, bytes[peer])
            ->Iterations(1)
            ->Repetitions(1);
    }
    for (bool peer : {true, false}) {
        for (size_t stride : {2 * MiB, 64 * KiB}) {
            add("hit", peer, 1000, stride, 1);
            add("hit", peer, 1000, stride, 2);
            add("hit", peer, 100000, stride, 1);
            add("hit", peer, 1000000, stride, 1);
            add("churn", peer, 1000000, stride, 1);
        }
    }
    benchmark::RegisterBenchmark("host", host);
    benchmark::RegisterBenchmark("unregistered", unregistered);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
