// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/fakes.h>
#include <memory>
#include <set>
#include <string>
#include <uct/ib_dmabuf/rcache/rcache.h>

// Runs a cache beside a plain model of its duties: the memory that exists, the
// users of each region, and hence the registrations allowed. A stream of
// numbers chooses the steps. Aborts with an explanation if cache and model
// differ. Single-threaded.
class model {
public:
    using counters = fakes::counters;

    class source {
    public:
        virtual ~source()                      = default;
        virtual uint32_t below(uint32_t bound) = 0;
    };

    explicit model(source &choices);
    ~model();

    void step();
    // Compares everything. Called now and then, and at the end.
    void check_all();
    // Puts all regions, and starts with another configuration.
    void restart();

    uint64_t steps = 0;
    bool forks     = true;
    std::string origin; // how to repeat the run; printed on errors

private:
    struct use {
        const ucx_ib_dmabuf::region *region;
        unsigned nic;
        uintptr_t address;
        size_t length;
        int device;
        bool found; // other users find it; no event since
    };
    struct place {
        uintptr_t base;
        size_t room;
        bool vmm;
    };

    void alloc_or_free();
    void free_at(const place &where, bool tell);
    void get(bool keep);
    void put();
    void invalidate();
    void get_with_fault();
    void replace_while_registering();
    void fork_child();
    void in_child();

    bool choose_range(uintptr_t *address, size_t *length);
    void judge(unsigned nic, uintptr_t address, size_t length, ucs_status_t got,
               const ucx_ib_dmabuf::region *region);
    void judge_hit(unsigned nic, uintptr_t address, uint64_t registered,
                   const ucx_ib_dmabuf::region *got);
    bool in_use(unsigned nic, uintptr_t address, size_t length) const;
    void see_evictions();
    bool is_found(unsigned nic, uintptr_t address, size_t length,
                  const ucx_ib_dmabuf::region *got);
    void judge_failure(unsigned nic, uintptr_t address, size_t length,
                       ucs_status_t status);
    void something_changed();
    static bool is_plain(uintptr_t address);
    uint64_t failed_as(uintptr_t address) const;
    uint64_t costly_calls() const;
    bool no_room(unsigned nic, uintptr_t address, size_t length) const;
    int device_at(uintptr_t address) const;
    void check_invalidated(uintptr_t address, size_t length);
    void check_contents(const use &what);
    bool is_used(const fakes::registration &what) const;
    void check_idle(const fakes::registration &what);
    bool current(const fakes::registration &what) const;
    void disarm();
    [[noreturn]] void wrong(const char *what) const;
    void expect(bool right, const char *what) const
    {
        if (!right) {
            wrong(what);
        }
    }

    static constexpr size_t KiB = 1024, MiB = 1024 * KiB;

    // Bases of small allocations (several to a granule), large ones, adjacent
    // VMM segments, and memory above 47 bits.
    static constexpr uintptr_t small_base = uintptr_t{1} << 40;
    static constexpr uintptr_t large_base = uintptr_t{2} << 40;
    static constexpr uintptr_t vmm_base   = uintptr_t{3} << 40;
    static constexpr uintptr_t high_base  = uintptr_t{1} << 55;

    static constexpr unsigned nic_count = 2;

    source &choices_;
    const size_t page = 4 * KiB << 2 * choices_.below(3); // 4, 16, 64 KiB
    fakes::gpu gpu_{page};
    std::vector<std::unique_ptr<fakes::nic>> nics_;
    std::unique_ptr<ucx_ib_dmabuf::rcache> cache_;
    ucx_ib_dmabuf::rcache_settings settings_;
    size_t max_bytes_   = SIZE_MAX; // per GPU
    size_t nic_bytes_   = SIZE_MAX;
    bool checks_        = false; // from now on
    bool fault_armed_   = false;
    bool missed_        = false; // some release since the restart sent no event
    bool refused_       = false; // a fault claimed "no room" since an event
    uint64_t evictions_ = 0;     // those that see_evictions() has handled
    int open_fds_;
    std::vector<place> places_;
    const place *target_ = nullptr; // place of the next get, or nullptr
    std::vector<use> uses_;
    // NIC and memory registered and not released since: must be a hit.
    std::set<std::pair<unsigned, uint64_t>> known_;
    // NIC and memory of permanent failures.
    std::set<std::pair<unsigned, uint64_t>> failed_;
};
