// SPDX-License-Identifier: BSD-3-Clause
//
// What the cache costs but for hits (bench_md.cc), each line a name, a figure
// and where there is one ucs_rcache's:
//   bytes         of host memory for each of many regions that a thread hits
//   insert        ns to register, give back and invalidate; costless hardware
//   host          ns for a lookup of what is no device memory, and for the hit
//                 in UCX's cache that follows for such memory
//   unregistered  ns for the event of memory that was never registered
#include "../../src/uct/ib_dmabuf/cache/cache.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
extern "C" {
#include <ucs/memory/rcache.h>
}

namespace {

using ucx_ib_dmabuf::cache;
using ucx_ib_dmabuf::region;

constexpr size_t stride  = 2 << 20;
constexpr unsigned turns = 5;
// Short ones, as neighbours of a virtual machine slow it down for some 50 ms:
// both of a pair then, and few of all.
constexpr unsigned short_turns = 101;

// Device memory above an address, an allocation every `stride` bytes; host
// memory below. A NIC that registers everything. Both without cost: the tests'
// fakes keep account of what there is, in 2 us and 220 bytes for each region,
// where the cache needs 0.4 us and 160.
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

ucs_status_t reg(void *, ucs_rcache_t *, void *, ucs_rcache_region_t *,
                 uint16_t)
{
    return UCS_OK;
}

void dereg(void *, ucs_rcache_t *, ucs_rcache_region_t *) {}

void dump(void *, ucs_rcache_t *, ucs_rcache_region_t *, char *, size_t) {}

// As uct_ib sets it up, but for the events: invalidation is asked for.
class rcache {
public:
    rcache()
    {
        static const ucs_rcache_ops_t ops = {reg, dereg, dump};
        ucs_rcache_params_t params        = {};
        params.region_struct_size         = sizeof(ucs_rcache_region_t) + 64;
        params.alignment                  = UCS_RCACHE_MIN_ALIGNMENT;
        params.max_alignment              = 4096;
        params.ops                        = &ops;
        params.flags                      = UCS_RCACHE_FLAG_NO_PFN_CHECK;
        params.max_regions                = ULONG_MAX;
        params.max_size                   = SIZE_MAX;
        params.max_unreleased             = SIZE_MAX;
        if (ucs_rcache_create(&params, "peer", nullptr, &cache_) != UCS_OK) {
            abort();
        }
    }
    ~rcache() { ucs_rcache_destroy(cache_); }
    rcache(const rcache &)            = delete;
    rcache &operator=(const rcache &) = delete;

    ucs_rcache_region_t *take(size_t number)
    {
        ucs_rcache_region_t *found = nullptr;
        if (ucs_rcache_get(cache_, reinterpret_cast<void *>(buffer(number)),
                           stride, PROT_READ | PROT_WRITE, nullptr,
                           &found) != UCS_OK) {
            abort();
        }
        return found;
    }
    void put(ucs_rcache_region_t *used) { ucs_rcache_region_put(cache_, used); }
    void invalidate(size_t number)
    {
        ucs_rcache_region_t *gone = take(number);
        ucs_rcache_region_invalidate(
            cache_, gone, [](void *) {}, nullptr);
        put(gone);
    }

private:
    ucs_rcache_t *cache_ = nullptr;
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

// In turns, each with caches of its own. Deregistration costs nothing here, so
// no thread is told to do it.
void print_insert(size_t count)
{
    std::vector<double> ours, theirs;
    for (unsigned turn = 0; turn < turns; ++turn) {
        subject mine;
        rcache peer;
        ours.push_back(time_of(count, [&] {
            for (size_t i = 0; i < count; ++i) {
                mine.use(i);
            }
            for (size_t i = 0; i < count; ++i) {
                mine.regions.invalidate(buffer(i), stride);
            }
        }));
        theirs.push_back(time_of(count, [&] {
            for (size_t i = 0; i < count; ++i) {
                peer.put(peer.take(i));
            }
            for (size_t i = 0; i < count; ++i) {
                peer.invalidate(i);
            }
        }));
    }
    printf("insert %.2f %.2f\n", median(ours), median(theirs));
}

void print_rest(size_t all)
{
    constexpr size_t used = 1000;
    const size_t count    = std::max<size_t>(all / 20, 1);
    subject mine;
    rcache peer;
    std::vector<double> host, host_hit, event;
    for (size_t i = 0; i < used; ++i) {
        mine.use(i);
        peer.put(peer.take(i));
    }
    for (unsigned turn = 0; turn < short_turns; ++turn) {
        host.push_back(time_of(count, [&] {
            const region *none = nullptr;
            for (size_t i = 0; i < count; ++i) {
                (void)mine.regions.get(mine.nic, costless_world::first / 2 + i,
                                       4096, &none);
            }
        }));
        host_hit.push_back(time_of(count, [&] {
            for (size_t i = 0; i < count; ++i) {
                peer.put(peer.take(i % used));
            }
        }));
        event.push_back(time_of(count, [&] {
            for (size_t i = 0; i < count; ++i) {
                mine.regions.invalidate(buffer(5000), stride);
            }
        }));
    }
    printf("host %.2f %.2f\nunregistered %.2f\n", median(host),
           median(host_hit), median(event));
}

size_t resident()
{
    size_t pages = 0, total = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == nullptr || fscanf(file, "%zu %zu", &total, &pages) != 2) {
        abort();
    }
    fclose(file);
    return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void print_bytes(size_t count)
{
    const size_t before = resident();
    subject mine;
    for (unsigned pass = 0; pass < 2; ++pass) {
        for (size_t i = 0; i < count; ++i) {
            mine.use(i);
        }
    }
    printf("bytes %.1f\n", static_cast<double>(resident() - before) /
                               static_cast<double>(count));
}

} // namespace

int main(int argc, char **argv)
{
    const size_t count = argc == 2 ? strtoull(argv[1], nullptr, 10) : 0;
    if (count == 0) {
        fprintf(stderr, "usage: bench_cache COUNT\n");
        return 2;
    }
    // First, in a process that has done nothing yet.
    print_bytes(count);
    print_insert(count);
    print_rest(count);
    return 0;
}
