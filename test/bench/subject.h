// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_BENCH_SUBJECT_H_
#define UCX_IB_DMABUF_TEST_BENCH_SUBJECT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

// A registration cache under measurement. The loops are inside, so that
// neither pays for the other's interface. Registering costs nothing: what is
// measured is the cache.
class subject {
public:
    virtual ~subject() = default;

    // Registers `count` ranges of `size` bytes, each the whole of what is
    // there, `stride` bytes apart.
    virtual void insert(uintptr_t base, size_t stride, size_t size,
                        size_t count) = 0;
    // Takes and gives back each of these addresses' first bytes.
    virtual void hit(const uintptr_t *addresses, size_t count) = 0;
    // Registers, gives back and invalidates each.
    virtual void churn(uintptr_t base, size_t stride, size_t size,
                       size_t count) = 0;
};

std::unique_ptr<subject> make_cache(size_t granule);
std::unique_ptr<subject> make_rcache();

#endif
