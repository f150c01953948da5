// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_BENCH_TRACE_WORLD_H_
#define UCX_IB_DMABUF_TEST_BENCH_TRACE_WORLD_H_

#include "../../src/uct/ib_dmabuf/cache/provider.h"
#include <map>
#include <string>

// What calls cost, in nanoseconds: nobody waits, a clock is advanced.
struct costs {
    // A question to the driver: 250 to 500 ns are reported for pointer queries.
    double query = 400;
    // A registration with the NIC, as UCX 1.13 models it (uct_ib's ib_md.c):
    // 16 us and 0.06 ns for a byte.
    double reg      = 16000;
    double reg_byte = 0.06;
    // What pins the GPU's memory for it: 70 us for 64 KiB, 119 us for 16 MiB on
    // a V100 (gdrcopy's issue 129), a line through both.
    double pin      = 70000;
    double pin_byte = 0.003;
    // No figures are known of these: each as the NIC's fixed part.
    double export_ = 16000;
    double dereg   = 16000;

    double registration(size_t length) const
    {
        return reg + pin + (reg_byte + pin_byte) * static_cast<double>(length);
    }
    // "NAME=NS"; false if that is wrong.
    bool set(const std::string &text);
};

// What a policy did.
struct account {
    uint64_t queries         = 0;
    uint64_t exports         = 0;
    uint64_t registrations   = 0;
    uint64_t deregistrations = 0;
    double bytes             = 0; // registered in all
    double ns                = 0; // that all this took

    uint64_t driver_calls() const { return queries + exports; }
    void query(const costs &price, unsigned count)
    {
        queries += count;
        ns += price.query * count;
    }
    void make_export(const costs &price)
    {
        ++exports;
        ns += price.export_;
    }
    void reg(const costs &price, size_t length)
    {
        ++registrations;
        bytes += static_cast<double>(length);
        ns += price.registration(length);
    }
    void dereg(const costs &price)
    {
        ++deregistrations;
        ns += price.dereg;
    }
};

struct trace_block {
    uintptr_t base;
    size_t size;
    uint64_t id;
    int device;
    bool vmm;

    uintptr_t end() const { return base + size; }
};

// GPUs that exist only as a table. One thread.
class trace_gpus : public ucx_ib_dmabuf::exporter {
public:
    trace_gpus(const costs &price, account &spent)
        : price_(price), spent_(spent)
    {
    }

    void alloc(uintptr_t base, size_t size, int device, bool vmm)
    {
        blocks_[base] = {base, size, ++last_id_, device, vmm};
    }
    void free(uintptr_t base) { blocks_.erase(base); }
    // Null if there is nothing.
    const trace_block *at(uintptr_t address) const;
    // The allocation or VMM segments at a range that is_one(), up to the end of
    // the last that the range touches.
    trace_block around(uintptr_t address, size_t length) const;
    // Whether the range is one allocation's, or that of VMM segments in a row.
    bool is_one(uintptr_t address, size_t length) const;

    ucs_status_t describe(uintptr_t address,
                          ucx_ib_dmabuf::extent *out) override;
    bool is_current(uintptr_t address, uint64_t identity) override;
    ucs_status_t export_range(uintptr_t, size_t, int *fd) override
    {
        spent_.make_export(price_);
        *fd = -1;
        return UCS_OK;
    }
    size_t granularity() const override { return 4096; }

private:
    const costs &price_;
    account &spent_;
    std::map<uintptr_t, trace_block> blocks_;
    uint64_t last_id_ = 0;
};

// Registers whatever it is given.
class trace_nic : public ucx_ib_dmabuf::registrar {
public:
    trace_nic(const costs &price, account &spent) : price_(price), spent_(spent)
    {
    }

    ucs_status_t reg(int, uintptr_t, size_t length, void **handle) override
    {
        spent_.reg(price_, length);
        *handle = this;
        return UCS_OK;
    }
    void dereg(void *) override { spent_.dereg(price_); }

private:
    const costs &price_;
    account &spent_;
};

#endif
