// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <common/ucx.h>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <uct/ib_dmabuf/gpu/exporter.h>
#include <uct/ib_dmabuf/rcache/registrar.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <unordered_set>
#include <vector>

// A GPU and NICs that exist only as tables: they answer the cache's calls and
// map nothing. File descriptors are real, so that a test sees a leak.
// Thread-safe. A call that real hardware would punish (an unaligned export, a
// second deregistration of a handle) counts as a complaint. gtest/contract
// tests that the GPU fulfils the contract of gpu/exporter.h.
namespace fakes {

// The counters of the process's caches, read at construction.
struct counters {
    static uint64_t of(ucx_ib_dmabuf::process_metric which)
    {
        return ucx_ib_dmabuf::process_counters.get(which);
    }
    uint64_t hits = of("hits"), misses = of("misses");
    uint64_t registrations   = of("registrations");
    uint64_t exports         = of("exports");
    uint64_t identity_checks = of("identity_checks");
    uint64_t identity_misses = of("identity_misses");
    uint64_t invalidations   = of("invalidations");
    uint64_t evictions = of("evictions"), regions = of("regions");
    uint64_t registered_bytes = of("registered_bytes");
    uint64_t mapped_bytes     = of("mapped_bytes");
};

// An observer is called before each of these calls, without a lock, so that it
// can let other threads run. dereg has no range.
enum class call { export_range, dereg };
using observer =
    std::function<void(call what, uintptr_t address, size_t length)>;

// A step that can fail. Counts the calls of all fakes that share it.
class faults {
public:
    // The n-th call from now on (counted from 1) fails with the status.
    void fail_call(uint64_t n, ucs_status_t status = UCS_ERR_IO_ERROR);
    // Every call fails with the status; with UCS_OK none does.
    void fail_all(ucs_status_t status) { always_ = status; }
    void clear();
    ucs_status_t next();
    uint64_t calls() const { return calls_; }
    // Whether the call that must fail has been made.
    bool hit() const { return at_ != 0 && calls_ >= at_; }

private:
    std::atomic<uint64_t> calls_{0}, at_{0};
    std::atomic<int> status_{UCS_OK}, always_{UCS_OK};
};

struct segment { // an allocation, or a VMM segment
    uintptr_t base;
    size_t size;
    uint64_t id;
};

class gpu : public ucx_ib_dmabuf::exporter {
public:
    explicit gpu(size_t page = 4096) : page_(page) {}

    // Returns the identity. Adjacent VMM segments can be used as one range.
    uint64_t alloc(uintptr_t base, size_t size, int device = 0,
                   bool exportable = true, bool vmm = false);
    void free(uintptr_t base);
    bool allocated(uintptr_t base) const;
    size_t size_at(uintptr_t base) const;
    // Returns the identity of the memory there; 0 if there is none.
    uint64_t id_at(uintptr_t address) const;

    // describe() without injected failures.
    ucs_status_t look(uintptr_t address, ucx_ib_dmabuf::allocation *out) const;
    // Returns UCS_OK if the range can be registered, else the error.
    ucs_status_t judge(uintptr_t address, size_t length) const;

    ucs_status_t describe(uintptr_t address,
                          ucx_ib_dmabuf::allocation *out) override;
    bool is_current(uintptr_t address, uint64_t identity) override;
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override;
    std::shared_ptr<void> keep_context(uintptr_t) override { return context; }
    size_t granularity() const override { return page_; }
    // The cache calls this only if chunk is set.
    uintptr_t export_begin(uintptr_t address) override
    {
        return address - address % chunk;
    }

    const std::shared_ptr<int> context = std::make_shared<int>();
    size_t chunk = 0; // an export includes its chunk's bytes before the range

    // Returns the memory of the dma-buf. Returns none, after a complaint, if fd
    // is no open dma-buf of this GPU or the dma-buf is shorter than `length`.
    std::vector<segment> contents(int fd, size_t length) const;

    // As BAR1 does, maps an export once, from its first import to its last.
    // Returns the export's number.
    uint64_t map(int fd);
    void unmap(uint64_t number);
    size_t mapped(int device) const;
    size_t max_mapped(int device) const;

    observer each_call;
    faults describe_faults, export_faults;
    std::atomic<uint64_t> identity_calls{0};
    // Called once, without a lock, to make something happen at that moment.
    std::function<void()> during_export;
    std::function<void()> after_describe;

private:
    struct block {
        size_t size;
        uint64_t id;
        int device;
        bool exportable, vmm;
    };
    using blocks = std::map<uintptr_t, block>;

    blocks::const_iterator find(uintptr_t address) const;
    std::vector<segment> find(uintptr_t address, size_t length) const;

    struct dmabuf {
        std::vector<segment> segments;
        uint64_t number;
        size_t length;
        int device;
    };
    struct mapping {
        size_t length;
        int device;
        unsigned imports = 0;
    };
    struct window {
        size_t now = 0, max = 0;
    };

    const size_t page_;
    mutable std::mutex lock_;
    blocks blocks_;
    std::map<int, dmabuf> exported_;
    std::map<uint64_t, mapping> mappings_;
    std::map<int, window> windows_;
    uint64_t last_export_ = 0;
    uint64_t last_id_     = 0;
};

// A NIC's registration. It is freed some time after its deregistration.
struct registration {
    uintptr_t address;
    size_t length;
    std::vector<segment> segments;
    uint64_t mapping; // the export's number
    std::atomic<bool> live{true};

    // Identity of the memory that the NIC reaches at this address; 0: none.
    uint64_t id_at(uintptr_t at) const;
};

class nic : public ucx_ib_dmabuf::registrar {
public:
    explicit nic(gpu &memory, size_t max_bytes = SIZE_MAX)
        : memory_(memory), max_bytes_(max_bytes)
    {
    }
    ~nic() override;

    const char *name() const noexcept override { return device_name.c_str(); }
    ucs_status_t reg(ucx_ib_dmabuf::dmabuf_exports &memory, int device,
                     uintptr_t address, size_t length, void **handle) override;
    void dereg(void *handle) override;
    void drop_from_ucp_cache(uintptr_t address, size_t length) override;

    size_t live() const { return live_; }
    void each(const std::function<void(const registration &)> &see) const;
    size_t bytes() const { return bytes_; }
    size_t max_seen_bytes() const { return max_seen_; }

    void limit(size_t max_bytes) { max_bytes_ = max_bytes; }

    std::string device_name = "fake";
    observer each_call;
    faults reg_faults;
    // Called once, without a lock, to make something happen at that moment.
    std::function<void()> during_reg;
    std::function<void()> after_reg;
    std::function<void()> after_refusal; // for lack of room
    std::function<void()> after_dereg;
    // For a NIC with users that cache regions. Set it before attaching the NIC.
    std::function<void(uintptr_t address, size_t length)> asked_back;
    std::atomic<uint64_t> registered{0}, deregistered{0};

private:
    gpu &memory_;
    std::atomic<size_t> max_bytes_;
    mutable std::mutex lock_;
    std::unordered_set<registration *> all_;
    std::deque<std::unique_ptr<registration>> dead_;
    std::atomic<size_t> live_{0}, bytes_{0}, max_seen_{0};
};

// Counts misuse of any fake since the start; a test wants 0.
extern std::atomic<uint64_t> complaints;

} // namespace fakes
