// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// What calls cost, in nanoseconds: nobody waits, a clock is advanced.
struct costs {
    // A question to the driver: 250 to 500 ns are reported for pointer queries.
    double query = 400;
    // A registration with the NIC, as UCX models it (uct_ib's ib_md.c):
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
