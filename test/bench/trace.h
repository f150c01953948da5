// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_BENCH_TRACE_H_
#define UCX_IB_DMABUF_TEST_BENCH_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <uct/ib_dmabuf/cache/provider.h>
#include <vector>

// A step of a trace, as test/bench/traces.awk describes them.
struct trace_step {
    enum class action { device, alloc, map, free, use } what;
    uintptr_t address; // of a device: its size
    size_t size;
};

// False, and says where, if the text is not a trace.
bool read_trace(std::istream &in, std::vector<trace_step> *out,
                std::string *error);

// A GPU that exists only as a table, a NIC that registers whatever it is
// given. Count their calls; neither opens anything. One thread.
class trace_gpu : public ucx_ib_dmabuf::exporter {
public:
    void alloc(uintptr_t base, size_t size, bool vmm);
    void free(uintptr_t base) { blocks_.erase(base); }
    size_t size_at(uintptr_t base) const { return blocks_.at(base).size; }

    ucs_status_t describe(uintptr_t address,
                          ucx_ib_dmabuf::extent *out) override;
    bool is_current(uintptr_t address, uint64_t identity) override;
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override;
    size_t granularity() const override { return 4096; }

    uint64_t driver_calls = 0;

private:
    struct block {
        size_t size;
        uint64_t id;
        bool vmm;
    };
    std::map<uintptr_t, block> blocks_;
    uint64_t last_id_ = 0;
};

class trace_nic : public ucx_ib_dmabuf::registrar {
public:
    ucs_status_t reg(int, uintptr_t, size_t length, void **handle) override
    {
        ++registrations;
        bytes += length;
        *handle = this;
        return UCS_OK;
    }
    void dereg(void *) override { ++deregistrations; }

    uint64_t registrations = 0, deregistrations = 0, bytes = 0;
};

// What UCX 1.22 would register of the same, by its rules: the whole allocation
// if that is at most a tenth of the device's memory, else the exact range,
// rounded to pages; found again by range; gone when memory in it is freed. Of
// one NIC.
class ucx_policy {
public:
    explicit ucx_policy(size_t device_memory) : device_(device_memory) {}

    void use(const ucx_ib_dmabuf::extent &memory, uintptr_t address,
             size_t length);
    void release(uintptr_t base, size_t size);

    uint64_t registrations = 0;
    // A detection and an address range for each miss of the type cache, and an
    // export that only probes, which this counts once for each allocation; an
    // export for each registration.
    uint64_t driver_calls = 0;

private:
    const size_t device_;
    std::map<uintptr_t, uintptr_t> regions_; // start to end
    std::map<uintptr_t, uintptr_t> probed_;
};

#endif
