// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_WORLD_H_
#define TEST_GTEST_INTERLEAVE_WORLD_H_

#include "explore.h"
#include <deque>
#include <set>
#include <uct/ib_dmabuf/cache/cache.h>

namespace interleave {

using ucx_ib_dmabuf::region;

constexpr uintptr_t KiB     = 1024;
constexpr uintptr_t granule = uintptr_t{2} << 20;

// A cache with a GPU and a NIC that are tables, and what must hold whatever
// the order: nothing is given out that was released before, nothing is
// deregistered twice or in use, and at the end nothing is left.
class world : public scenario, private ucx_ib_dmabuf::exporter {
public:
    explicit world(ucx_ib_dmabuf::cache_settings settings = {});
    ~world() override;
    void finish() override;

protected:
    void alloc(uintptr_t base, size_t size);
    // As the driver does it, and then the event: where the event comes first
    // the memory can be registered again before it is gone.
    void release(uintptr_t base);
    const region *take(uintptr_t address, size_t length = 1, unsigned nic = 0);
    void give(const region *used);
    void use(uintptr_t address, size_t length = 1, unsigned nic = 0)
    {
        give(take(address, length, nic));
    }
    // This thread never gets a record.
    void refuse_record();

    std::unique_ptr<ucx_ib_dmabuf::cache> cache_;

private:
    static constexpr unsigned nics = 2;

    struct registration {
        uintptr_t address;
        size_t length;
        uint64_t identity;
        bool live;
        int users;
        unsigned nic;
    };
    struct card : ucx_ib_dmabuf::registrar {
        ucs_status_t reg(int fd, uintptr_t address, size_t length,
                         void **handle) override;
        void dereg(void *handle) override;

        std::deque<registration> *all;
        unsigned number;
    };
    struct allocation {
        uintptr_t base;
        size_t size;
        uint64_t identity;
    };

    const allocation *find(uintptr_t address) const;

    ucs_status_t describe(uintptr_t address,
                          ucx_ib_dmabuf::extent *out) override;
    bool is_current(uintptr_t address, uint64_t identity) override;
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override;
    size_t granularity() const override { return 4096; }

    const bool limited_;
    std::vector<allocation> memory_;
    std::set<uint64_t> gone_; // identities whose event is over
    unsigned releasing_ = 0;  // whose memory is gone, and the event isn't over
    // The thread may be refused because of one of those: another one's export
    // failed meanwhile, or its own does.
    std::array<bool, max_threads + 1> excused_{};
    uint64_t last_identity_ = 0;
    std::deque<registration> registrations_;
    card cards_[nics];
};

} // namespace interleave

#endif
