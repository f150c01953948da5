// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// The costs of calls in nanoseconds. Nothing waits; a clock is advanced.
struct costs {
    // A query to the driver: 250 to 500 ns are reported for pointer queries.
    double query = 400;
    // A registration with the NIC, as UCX models it (uct_ib's ib_md.c): 16 us
    // and 0.06 ns per byte.
    double reg      = 16000;
    double reg_byte = 0.06;
    // Pinning the GPU's memory for it: 70 us for 64 KiB, 119 us for 16 MiB on a
    // V100 (gdrcopy's issue 129), and linear between.
    double pin      = 70000;
    double pin_byte = 0.003;
    // No figures are known for these: assumed equal to the NIC's fixed part.
    double export_ = 16000;
    double dereg   = 16000;

    double registration(size_t length) const
    {
        return reg + pin + (reg_byte + pin_byte) * static_cast<double>(length);
    }
};

// The calls of a policy and their cost.
struct account {
    uint64_t queries         = 0;
    uint64_t exports         = 0;
    uint64_t registrations   = 0;
    uint64_t deregistrations = 0;
    double bytes             = 0; // registered in total
    double ns                = 0; // total time of these calls

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
