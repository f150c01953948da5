// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_WORLD_H_
#define TEST_GTEST_INTERLEAVE_WORLD_H_

#include "explore.h"
#include <common/fakes.h>
#include <common/status.h>
#include <set>
#include <uct/ib_dmabuf/cache/cache.h>

namespace interleave {

using ucx_ib_dmabuf::region;

constexpr uintptr_t KiB     = 1024;
constexpr uintptr_t granule = uintptr_t{2} << 20;

inline void expect(bool holds, const char *otherwise)
{
    if (!holds) {
        the_machine.fail(otherwise);
    }
}

// A cache with a fake GPU and NICs, whose calls are steps, and what must hold
// whatever the order: nothing is given out that was released before, nothing is
// deregistered twice or in use, and at the end nothing is left.
class world : public scenario {
public:
    explicit world(ucx_ib_dmabuf::cache_settings settings = {});
    ~world() override;
    void finish() override;

protected:
    void alloc(uintptr_t base, size_t size) { gpu_.alloc(base, size); }
    // A VMM segment: a request may go on in the next one.
    void map(uintptr_t base, size_t size)
    {
        gpu_.alloc(base, size, 0, true, true);
    }
    // As the driver does it, and then the event: where the event comes first
    // the memory can be registered again before it is gone.
    void release(uintptr_t base);
    // Waits until nothing that was released is registered.
    void flush();
    // Other memory is at the address, and no event tells.
    void replace(uintptr_t base);
    // The NIC loses what it has registered, and the cache hears of it.
    void lose(unsigned nic);
    const region *take(uintptr_t address, size_t length = 1, unsigned nic = 0);
    void give(const region *used);
    void use(uintptr_t address, size_t length = 1, unsigned nic = 0)
    {
        give(take(address, length, nic));
    }
    // How many registrations there were in all.
    uint64_t registered() const
    {
        return nics_[0].registered + nics_[1].registered;
    }
    // This thread never gets a record.
    void refuse_record();

    std::unique_ptr<ucx_ib_dmabuf::cache> cache_;

private:
    bool is_registered(const std::set<uint64_t> &identities) const;

    const bool limited_;
    fakes::gpu gpu_;
    fakes::nic nics_[2] = {fakes::nic(gpu_), fakes::nic(gpu_)};
    std::set<uint64_t> gone_;     // identities whose event is over
    std::set<uint64_t> replaced_; // without one
    std::set<uint64_t> lost_[2];  // mappings that a NIC has lost
    unsigned releasing_ = 0; // whose memory is gone, and the event isn't over
    // The thread may be refused because of one of those: another one's export
    // failed meanwhile, or its own does.
    std::array<bool, max_threads + 1> excused_{};
};

// Where scenarios have their memory.
constexpr uintptr_t A = 16 * granule, B = A + 64 * KiB, C = B + 64 * KiB;

class with_memory : public world {
public:
    explicit with_memory(ucx_ib_dmabuf::cache_settings settings = {})
        : world(settings)
    {
        alloc(A, granule);
    }
};

inline constexpr auto nothing = [] {};

} // namespace interleave

#endif
