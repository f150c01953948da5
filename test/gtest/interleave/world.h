// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_WORLD_H_
#define TEST_GTEST_INTERLEAVE_WORLD_H_

#include "explore.h"
#include <common/status.h>
#include <deque>
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

// A cache with a GPU and NICs that are tables, and what must hold whatever
// the order: nothing is given out that was released before, nothing is
// deregistered twice or in use, and at the end nothing is left.
class world : public scenario, private ucx_ib_dmabuf::exporter {
public:
    explicit world(ucx_ib_dmabuf::cache_settings settings = {});
    ~world() override;
    void finish() override;

protected:
    void alloc(uintptr_t base, size_t size);
    // A VMM segment: a request may go on in the next one.
    void map(uintptr_t base, size_t size);
    // As the driver does it, and then the event: where the event comes first
    // the memory can be registered again before it is gone.
    void release(uintptr_t base);
    // Waits until nothing that was released is registered.
    void flush();
    // Other memory is at the address, and no event tells.
    void replace(uintptr_t base);
    const region *take(uintptr_t address, size_t length = 1, unsigned nic = 0);
    void give(const region *used);
    void use(uintptr_t address, size_t length = 1, unsigned nic = 0)
    {
        give(take(address, length, nic));
    }
    // How many registrations there were in all.
    size_t registered() const { return registrations_.size(); }
    // This thread never gets a record.
    void refuse_record();

    std::unique_ptr<ucx_ib_dmabuf::cache> cache_;

private:
    struct allocation {
        uintptr_t base;
        size_t size;
        uint64_t identity;
        bool joins;

        bool overlaps(uintptr_t address, size_t length) const
        {
            return address < base + size && base < address + length;
        }
    };
    struct registration {
        uintptr_t address;
        size_t length;
        std::vector<allocation> of;
        unsigned nic;
        bool live = true;
        int users = 0;

        bool has_any(const std::set<uint64_t> &identities) const;
    };
    struct card : ucx_ib_dmabuf::registrar {
        explicit card(world *of) : owner(of), number(of->cache_->attach(*this))
        {
        }
        ucs_status_t reg(int fd, uintptr_t address, size_t length,
                         void **handle) override;
        void dereg(void *handle) override;

        world *owner;
        unsigned number;
    };

    allocation *find(uintptr_t address);
    std::vector<allocation> find(uintptr_t address, size_t length);
    bool leaves_memory(uintptr_t address, size_t length);

    ucs_status_t describe(uintptr_t address,
                          ucx_ib_dmabuf::extent *out) override;
    bool is_current(uintptr_t address, uint64_t identity) override;
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override;
    size_t granularity() const override { return 4096; }

    const bool limited_;
    std::vector<allocation> memory_;
    std::set<uint64_t> gone_;     // identities whose event is over
    std::set<uint64_t> replaced_; // without one
    unsigned releasing_ = 0; // whose memory is gone, and the event isn't over
    // The thread may be refused because of one of those: another one's export
    // failed meanwhile, or its own does.
    std::array<bool, max_threads + 1> excused_{};
    uint64_t last_identity_ = 0;
    std::vector<std::vector<allocation>> exports_;
    std::deque<registration> registrations_;
    card cards_[2] = {card(this), card(this)};
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
