// SPDX-License-Identifier: BSD-3-Clause
//
// What the cache costs but for hits (bench_md.cc), each line a name and a
// figure in ns:
//   insert        to register, give back and invalidate; costless hardware
//   host          a lookup of what is no device memory
//   unregistered  the event of memory that was never registered
#include "../../src/uct/ib_dmabuf/cache/cache.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

namespace {

using ucx_ib_dmabuf::cache;
using ucx_ib_dmabuf::region;

constexpr size_t stride  = 2 << 20;
constexpr unsigned turns = 5;
// Short ones, as neighbours of a virtual machine slow it down for some 50 ms.
constexpr unsigned short_turns = 101;

// Device memory above an address, an allocation every `stride` bytes; host
// memory below. A NIC that registers everything. Both without cost: the tests'
// fakes keep account of what there is, which takes 2 us for each region.
class costless_world : public ucx_ib_dmabuf::exporter,
                       public ucx_ib_dmabuf::registrar {
    using ucs_status_t = ucx_ib_dmabuf::ucs_status_t;
    using enum ucx_ib_dmabuf::ucs_status_t;

public:
    static constexpr uintptr_t first = uintptr_t{1} << 40;

    ucs_status_t describe(uintptr_t address,
                          ucx_ib_dmabuf::extent *out) override
    {
        if (address < first) {
            return UCS_ERR_NO_ELEM;
        }
        *out = {.base     = address - (address - first) % stride,
                .size     = stride,
                .identity = (address - first) / stride,
                .device   = 0};
        return UCS_OK;
    }
    bool is_current(uintptr_t address, uint64_t identity) override
    {
        return identity == (address - first) / stride;
    }
    ucs_status_t export_range(uintptr_t, size_t, int *fd) override
    {
        *fd = -1;
        return UCS_OK;
    }
    size_t granularity() const override { return 4096; }
    ucs_status_t reg(ucx_ib_dmabuf::dmabuf_source &memory, int, uintptr_t,
                     size_t, void **handle) override
    {
        int fd  = -1;
        *handle = this;
        return memory.get(ucx_ib_dmabuf::mapping_type::standard, &fd);
    }
    void dereg(void *) override {}
};

uintptr_t buffer(size_t number)
{
    return costless_world::first + number * stride;
}

struct subject {
    costless_world world;
    cache regions{world, settings()};
    const cache::nic_id nic = regions.attach(world);

    ~subject() { regions.detach(nic); }
    static ucx_ib_dmabuf::cache_settings settings()
    {
        ucx_ib_dmabuf::cache_settings result;
        result.deferred_size = SIZE_MAX;
        return result;
    }
    void use(size_t number)
    {
        const region *got = nullptr;
        if (regions.get(nic, buffer(number), 1024, &got) !=
            ucx_ib_dmabuf::UCS_OK) {
            abort();
        }
        regions.put(got);
    }
};

// CPU time, in ns, of each of `count` things that `what` does.
double time_of(size_t count, const std::function<void()> &what)
{
    timespec begin{}, end{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    what();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return (static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
            static_cast<double>(end.tv_nsec - begin.tv_nsec)) /
           static_cast<double>(count);
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Deregistration costs nothing here, so no thread is told to do it.
void print_insert(size_t count)
{
    std::vector<double> times;
    for (unsigned turn = 0; turn < turns; ++turn) {
        subject mine;
        times.push_back(time_of(count, [&] {
            for (size_t i = 0; i < count; ++i) {
                mine.use(i);
            }
            for (size_t i = 0; i < count; ++i) {
                mine.regions.invalidate(buffer(i), stride);
            }
        }));
    }
    printf("insert %.2f\n", median(times));
}

void print_rest(size_t all)
{
    constexpr size_t used = 1000;
    const size_t count    = std::max<size_t>(all / 20, 1);
    subject mine;
    std::vector<double> host, event;
    for (size_t i = 0; i < used; ++i) {
        mine.use(i);
    }
    for (unsigned turn = 0; turn < short_turns; ++turn) {
        host.push_back(time_of(count, [&] {
            const region *none = nullptr;
            for (size_t i = 0; i < count; ++i) {
                (void)mine.regions.get(mine.nic, costless_world::first / 2 + i,
                                       4096, &none);
            }
        }));
        event.push_back(time_of(count, [&] {
            for (size_t i = 0; i < count; ++i) {
                mine.regions.invalidate(buffer(5000), stride);
            }
        }));
    }
    printf("host %.2f\nunregistered %.2f\n", median(host), median(event));
}

} // namespace

int main(int argc, char **argv)
{
    const size_t count = argc == 2 ? strtoull(argv[1], nullptr, 10) : 0;
    if (count == 0) {
        fprintf(stderr, "usage: bench_cache COUNT\n");
        return 2;
    }
    print_insert(count);
    print_rest(count);
    return 0;
}
