// SPDX-License-Identifier: BSD-3-Clause
//
// The ranges of the entries that UCP makes in its cache. A function acts as
// UCP's, and asks the domain to register.
#include "fake_domain.h"
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/md/extents.h>
#include <vector>

using ucx_ib_dmabuf::address_range;
using ucx_ib_dmabuf::make_range;

namespace {

constexpr size_t mib = 1 << 20;

// UCP with some domains. Its cache has entries that do not overlap; it replaces
// those that do by one for all of their bytes.
class fake_ucp {
public:
    explicit fake_ucp(std::vector<fake_domain *> mds) : mds_(std::move(mds)) {}
    ~fake_ucp()
    {
        for (const entry &each : all) {
            put(each);
        }
    }
    fake_ucp(const fake_ucp &)            = delete;
    fake_ucp &operator=(const fake_ucp &) = delete;

    // A miss. Returns the range that UCP is told to register.
    address_range get(uintptr_t address, size_t length,
                      ucx_ib_dmabuf::ucs_memory_type_t type =
                          ucx_ib_dmabuf::UCS_MEMORY_TYPE_CUDA,
                      uint64_t md_map = 1)
    {
        void *memh = nullptr;
        status     = ucx_ib_dmabuf::get_gpu_memh(
                {slow, this, address, length, type, md_map, 9, "name", &memh});
        EXPECT_EQ(status == UCS_OK ? this : nullptr, memh);
        return told;
    }
    // How many registrations all entries have.
    size_t entries() const { return all.size(); }

    ucs_status_t status = UCS_OK;
    size_t largest      = SIZE_MAX; // that can be registered
    size_t told_length  = 0;        // also of a range beyond all addresses

private:
    struct entry {
        address_range range;
        std::vector<uct_mem_h> handles;
    };

    void put(const entry &one)
    {
        for (size_t i = 0; i < one.handles.size(); ++i) {
            EXPECT_EQ(UCS_OK, mds_[i]->dereg(one.handles[i]));
        }
    }
    ucs_status_t add(address_range range, unsigned flags)
    {
        entry made{range, {}};
        if (range.size() > largest) {
            return UCS_ERR_NO_MEMORY;
        }
        for (fake_domain *md : mds_) {
            uct_mem_h handle  = nullptr;
            const auto result = md->reg(range.lo, range.size(), &handle, flags);
            if (result != UCS_OK) {
                put(made);
                return result;
            }
            made.handles.push_back(handle);
        }
        all.push_back(made);
        return UCS_OK;
    }
    // ucs_rcache_get()
    ucs_status_t make(address_range range)
    {
        const address_range wanted = range;
        for (auto each = all.begin(); each != all.end();) {
            if (each->range.covers(wanted)) {
                return UCS_OK;
            }
            if (each->range.overlaps(range)) {
                range = hull(range, each->range);
                put(*each);
                each = all.erase(each);
            } else {
                ++each;
            }
        }
        if (range == wanted ||
            add(range, ucx::access_all | ucx::hide_errors) != UCS_OK) {
            return add(wanted, ucx::access_all);
        }
        return UCS_OK;
    }
    static ucs_status_t slow(void *context, void *address, size_t length,
                             ucx_ib_dmabuf::ucs_memory_type_t, uint64_t,
                             unsigned flags, const char *name, void **memh)
    {
        auto *self = static_cast<fake_ucp *>(context);
        EXPECT_EQ(9u, flags);
        EXPECT_STREQ("name", name);
        self->told = make_range(reinterpret_cast<uintptr_t>(address), length);
        self->told_length         = length;
        const ucs_status_t status = self->make(self->told);
        *memh                     = (status == UCS_OK) ? self : nullptr;
        return status;
    }

    const std::vector<fake_domain *> mds_;
    std::vector<entry> all;
    address_range told;
};

class test_extents : public domain_test {
protected:
    // UCP that has registered before.
    static void begin(fake_ucp &ucp)
    {
        gpu::buffer other(4096);
        ucp.get(other.address(), 4096);
    }
    static size_t registered() { return fake_ib::now.regions.size(); }
};

// The first miss of a context shows with which NICs it registers.
TEST_F(test_extents, an_allocation_has_one_entry)
{
    gpu::buffer first(4 * mib), second(4 * mib);
    fake_ucp ucp({md_.get()});

    EXPECT_EQ(make_range(first.address(), mib), ucp.get(first.address(), mib));
    for (size_t at : {size_t{0}, mib, 3 * mib}) {
        EXPECT_EQ(make_range(second.address(), 4 * mib),
                  ucp.get(second.address() + at, mib));
    }
    EXPECT_EQ(2u, ucp.entries());
    EXPECT_EQ(2u, registered());
    EXPECT_EQ(
        make_range(second.address(), mib),
        ucp.get(second.address(), mib, ucx_ib_dmabuf::UCS_MEMORY_TYPE_CUDA, 2))
        << "other domains";
}

TEST_F(test_extents, two_nics_register_before_ucp_asks)
{
    fake_domain other("fake1");
    gpu::buffer memory(4 * mib);
    fake_ucp ucp({md_.get(), &other});

    begin(ucp);
    EXPECT_EQ(make_range(memory.address(), 4 * mib),
              ucp.get(memory.address() + mib, mib));
    EXPECT_EQ(2u, registered());
}

TEST_F(test_extents, other_memory_stays_as_it_is)
{
    gpu::buffer memory(4 * mib);
    std::vector<char> host(mib);
    fake_ucp ucp({md_.get()});

    begin(ucp);
    for (auto type : {ucx_ib_dmabuf::UCS_MEMORY_TYPE_HOST,
                      ucx_ib_dmabuf::UCS_MEMORY_TYPE_CUDA_MANAGED}) {
        EXPECT_EQ(make_range(memory.address(), mib),
                  ucp.get(memory.address(), mib, type));
    }
    const auto address = reinterpret_cast<uintptr_t>(host.data());
    EXPECT_EQ(make_range(address, mib), ucp.get(address, mib));
}

// UCP is told no other range, which it would round up to address 0.
TEST_F(test_extents, a_range_beyond_all_addresses_stays_as_it_is)
{
    gpu::buffer memory(4 * mib);
    fake_ucp ucp({md_.get()});

    begin(ucp);
    ucp.get(memory.address(), SIZE_MAX - 4096);
    EXPECT_EQ(SIZE_MAX - 4096, ucp.told_length);
}

// UCP's entries may not join into a range that is not registered.
TEST_F(test_extents, messages_over_borders_register_nothing_twice)
{
    constexpr unsigned count = 6;
    gpu::segments memory(count);
    fake_ucp ucp({md_.get()});
    const size_t step = memory.step();

    begin(ucp);
    for (int again = 0; again < 3; ++again) {
        for (unsigned i = 0; i < count; ++i) {
            ucp.get(memory.address() + i * step + step / 4, step / 2);
            EXPECT_EQ(UCS_OK, ucp.status);
        }
        for (unsigned i = 1; i < count; ++i) {
            const uintptr_t over = memory.address() + i * step - 4096;
            EXPECT_EQ(make_range(over, 8192), ucp.get(over, 8192));
        }
    }
    EXPECT_EQ(1u, registered());
}

// As another domain may do, such as gdr_copy's.
TEST_F(test_extents, what_cannot_be_made_for_all_is_made_for_the_request)
{
    gpu::buffer memory(4 * mib);
    fake_ucp ucp({md_.get()});

    begin(ucp);
    ucp.largest = 2 * mib;
    EXPECT_EQ(make_range(memory.address(), mib),
              ucp.get(memory.address(), mib));
    EXPECT_EQ(UCS_OK, ucp.status);
}

TEST_F(test_extents, what_cannot_be_registered_is_asked_for_as_it_is)
{
    gpu::buffer memory(4 * mib);
    fake_ucp ucp({md_.get()});

    begin(ucp);
    fake_ib::now.fail_verbs = EFAULT;
    EXPECT_EQ(make_range(memory.address(), mib),
              ucp.get(memory.address(), mib));
    EXPECT_NE(UCS_OK, ucp.status);
}

TEST_F(test_extents, a_closed_domain_is_forgotten)
{
    gpu::buffer memory(4 * mib);
    fake_ucp ucp({md_.get()});

    begin(ucp);
    {
        fake_domain other("fake1");
        fake_ucp with({&other});
        begin(with);
    }
    fake_domain third("fake2");
    fake_ucp with({&third});
    EXPECT_EQ(make_range(memory.address(), mib),
              with.get(memory.address(), mib));
    EXPECT_EQ(1u, registered());
}

TEST_F(test_extents, keys_to_invalidate_are_of_what_is_packed)
{
    gpu::buffer memory(4 * mib);
    uct_mem_h whole = md_->reg(memory.address(), 4 * mib);
    std::vector<uint32_t> keys;

    for (size_t at : {size_t{0}, 2 * mib, size_t{0}}) {
        keys.push_back(0);
        EXPECT_EQ(UCS_OK, md_->pack(whole, packing(ucx::invalidate),
                                    &keys.back(), memory.address() + at, mib));
        const ibv_mr *mr = fake_ib::find(keys.back());
        ASSERT_NE(nullptr, mr);
        EXPECT_EQ(mib, mr->length);
    }
    EXPECT_NE(keys[0], keys[1]);
    EXPECT_EQ(keys[0], keys[2]);
    // Each range overlaps the one before.
    for (size_t at = 0; at < 100; ++at) {
        uint32_t key = 0;
        EXPECT_EQ(UCS_OK, md_->pack(whole, packing(ucx::invalidate), &key,
                                    memory.address() + at * 8192, mib));
        keys.push_back(key);
    }
    EXPECT_LE(registered(), 1 + 9u); // the allocation, eight parts, and all
    completion told;
    EXPECT_EQ(UCS_OK, md_->invalidate(whole, &told));
    for (uint32_t key : keys) {
        EXPECT_EQ(nullptr, fake_ib::find(key));
    }
}

} // namespace
