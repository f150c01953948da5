// SPDX-License-Identifier: BSD-3-Clause
//
// The overridden memory domain through UCT's interface, as UCP uses it: in the
// lab, with the simulated GPU, on each UCX.
#include "handle_params.h"
#include <common/breakpoint.h>
#include <common/fds.h>
#include <common/gpu.h>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <lab/rxe_dmabuf.h>
#include <lab/soft_roce.h>
#include <memory>
#include <optional>
#include <string>
#include <uct/api/uct.h>
#include <uct/ib_dmabuf/ucx/abi.h>
#include <vector>

namespace {

// The memory domain of the lab's first device, opened through UCT.
class memory_domain {
public:
    memory_domain()
    {
        const uct_component_h component = find_ib();
        uct_md_config_t *config         = nullptr;

        check(uct_md_config_read(component, nullptr, nullptr, &config));
        ucs_status_t status = uct_md_open(component, "rxe0", config, &md_);
        uct_config_release(config);
        check(status);
    }
    ~memory_domain() { uct_md_close(md_); }
    memory_domain(const memory_domain &)            = delete;
    memory_domain &operator=(const memory_domain &) = delete;

    ibv_pd *pd() const
    {
        ibv_pd *found = nullptr;
        memcpy(&found, reinterpret_cast<char *>(md_) + ucx_ib_dmabuf::pd_offset,
               sizeof(found));
        return found;
    }
    // This, and what else returns no status, throws on failure.
    uct_mem_h reg(uintptr_t address, size_t length,
                  unsigned flags = UCT_MD_MEM_ACCESS_RMA)
    {
        uct_mem_h memh = nullptr;
        check(uct_md_mem_reg(md_, reinterpret_cast<void *>(address), length,
                             flags, &memh));
        return memh;
    }
    void dereg(uct_mem_h memh) { check(uct_md_mem_dereg(md_, memh)); }

    uint64_t pack(uct_mem_h memh)
    {
        uint64_t key = 0;

        check(uct_md_mkey_pack(md_, memh, &key));
        return key;
    }
    // Packs a key for `length` bytes at the address.
    ucs_status_t pack(uct_mem_h memh, void *address, size_t length,
                      const ucx_ib_dmabuf::uct_md_mkey_pack_params_t &params,
                      uint64_t *key)
    {
        using function = ucs_status_t(
            uct_md_h, uct_mem_h, void *, size_t,
            const ucx_ib_dmabuf::uct_md_mkey_pack_params_t *, void *);
        return v2<function>("uct_md_mkey_pack_v2")(md_, memh, address, length,
                                                   &params, key);
    }
    ucs_status_t dereg(const ucx_ib_dmabuf::uct_md_mem_dereg_params_t &params)
    {
        using function = ucs_status_t(
            uct_md_h, const ucx_ib_dmabuf::uct_md_mem_dereg_params_t *);
        return v2<function>("uct_md_mem_dereg_v2")(md_, &params);
    }

private:
    // No installed header declares these functions.
    template <class Function>
    static Function *v2(const char *name)
    {
        return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
    }
    static void check(ucs_status_t status)
    {
        if (status != UCS_OK) {
            throw std::runtime_error(ucs_status_string(status));
        }
    }

    static uct_component_h find_ib()
    {
        uct_component_h *all  = nullptr;
        uct_component_h found = nullptr;
        unsigned count        = 0;

        check(uct_query_components(&all, &count));
        for (unsigned i = 0; i < count; ++i) {
            uct_component_attr_t attr{};
            attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
            check(uct_component_query(all[i], &attr));
            if (strcmp(attr.name, "ib") == 0) {
                found = all[i];
            }
        }
        uct_release_component_list(all);
        if (found == nullptr) {
            throw std::runtime_error("UCX has no component ib");
        }
        return found;
    }

    uct_md_h md_ = nullptr;
};

// Returns the number of memory regions in the kernel, of all processes.
int count_regions()
{
    FILE *pipe =
        popen("env -u LD_PRELOAD rdma resource show mr 2>/dev/null", "r");
    char line[512];
    int count = 0;

    while (fgets(line, sizeof(line), pipe) != nullptr) {
        ++count;
    }
    if (pclose(pipe) != 0) {
        throw std::runtime_error("'rdma resource show mr' failed");
    }
    return count;
}

constexpr size_t mib       = 1 << 20;
constexpr unsigned for_all = UCT_MD_MEM_ACCESS_ALL;

uint64_t calls_of(const char *name)
{
    return gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls")(name);
}

class test_md : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        regions_ = count_regions();
        fds_     = count_fds();
        md_      = std::make_unique<memory_domain>();
    }

    void use(uintptr_t address) { md_->dereg(md_->reg(address, mib, for_all)); }

    std::unique_ptr<memory_domain> md_;
    int regions_ = 0, fds_ = 0; // before the domain was opened
};

TEST_F(test_md, memory_at_a_used_address_is_registered_anew)
{
    auto buffer             = std::make_unique<gpu::buffer>(4 * mib);
    const uintptr_t address = buffer->address();
    const uint64_t before   = calls_of("cuMemGetHandleForAddressRange");

    use(address);
    buffer.reset();
    buffer = std::make_unique<gpu::buffer>(4 * mib);
    ASSERT_EQ(address, buffer->address());
    use(address);
    EXPECT_EQ(before + 2, calls_of("cuMemGetHandleForAddressRange"));
}

TEST_F(test_md, no_fd_stays_open)
{
    const int before = count_fds();
    gpu::buffer first(4 * mib);
    gpu::buffer second(100);
    gpu::segments third(3);
    const uct_mem_h all[] = {md_->reg(first.address(), mib, for_all),
                             md_->reg(second.address(), 100, for_all),
                             md_->reg(third.address(), third.size(), for_all)};

    EXPECT_EQ(before, count_fds());
    for (uct_mem_h one : all) {
        md_->dereg(one);
    }
}

// /sys/class/infiniband/<device>/hw_counters lacks soft-RoCE's regions; "rdma
// resource" lists all.
TEST_F(test_md, close_deregisters_everything)
{
    gpu::buffer buffer(4 * mib);
    const int before = count_regions();
    {
        memory_domain other;
        other.dereg(other.reg(buffer.address(), mib, for_all));
        EXPECT_EQ(before + 1, count_regions()) << "kept for the next use";
    }
    EXPECT_EQ(before, count_regions());
}

TEST_F(test_md, release_of_the_memory_deregisters_at_once)
{
    gpu::buffer buffer(4 * mib);
    const int before = count_regions();

    use(buffer.address());
    EXPECT_EQ(before + 1, count_regions());
    buffer.release();
    EXPECT_EQ(before, count_regions());
}

// Soft-RoCE counts what a closing device leaves to the kernel.
TEST_F(test_md, a_domain_is_closed_with_memory_registered)
{
    gpu::buffer buffer(4 * mib), other(4 * mib);
    rxe_dmabuf_counters_t counters{};

    md_->reg(buffer.address(), mib);
    md_->reg(buffer.address() + mib, mib);
    md_->pack(md_->reg(other.address(), mib));
    md_.reset();
    md_ = std::make_unique<memory_domain>();
    use(buffer.address());
    buffer.release();
    other.release();
    md_.reset();
    EXPECT_EQ(regions_, count_regions());
    reinterpret_cast<decltype(rxe_dmabuf_counters) *>(
        dlsym(RTLD_DEFAULT, "rxe_dmabuf_counters"))(&counters);
    EXPECT_EQ(0u, counters.live);
    EXPECT_EQ(fds_, count_fds());
}

// The memory that the domain's keys reach.
class test_keys : public test_md {
protected:
    void SetUp() override
    {
        test_md::SetUp();
        nic_.emplace(md_->pd());
        host_mr_ = nic_->reg(host_);
    }
    void TearDown() override
    {
        host_mr_.reset();
        nic_.reset();
    }

    // Writes 'n' to the address. Returns the completion's status.
    ibv_wc_status write(uintptr_t address, uint64_t key)
    {
        return nic_->transfer(IBV_WR_RDMA_WRITE, host_.data(), host_mr_->lkey,
                              address, static_cast<uint32_t>(key), length);
    }
    uct_mem_h reg(uintptr_t address) { return md_->reg(address, length); }
    // uct_ib's verbs domains refuse a revocable key, and soft-RoCE is not an
    // mlx5 device.
    void expect_no_own_key(uct_mem_h memh, uintptr_t address)
    {
        uint64_t packed = 0;
        EXPECT_EQ(
            UCS_ERR_UNSUPPORTED,
            md_->pack(
                memh, reinterpret_cast<void *>(address), length,
                packing(ucx_ib_dmabuf::UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA),
                &packed));
    }
    void invalidate(uct_mem_h memh, completion *told)
    {
        EXPECT_EQ(UCS_OK, md_->dereg(invalidating(memh, told)));
        EXPECT_EQ(1u, told->told);
    }
    static bool all_are(char byte, uintptr_t address)
    {
        std::string bytes(length, '?');
        GPU_CALL(cuMemcpyDtoH, bytes.data(), address, length);
        return bytes == std::string(length, byte);
    }

    static constexpr size_t length = 10000;
    std::optional<ucx_ib_dmabuf::test::nic> nic_;
    std::vector<uint8_t> host_ = std::vector<uint8_t>(length, 'n');
    ucx_ib_dmabuf::test::region host_mr_;
};

TEST_F(test_keys, one_user_invalidates_while_another_goes_on)
{
    gpu::buffer pool(4 * mib);
    const uintptr_t failed_at = pool.address() + mib + 100;
    const uintptr_t other_at  = pool.address() + 2 * mib;
    uct_mem_h failed          = reg(failed_at);
    uct_mem_h other           = reg(other_at);
    const uint64_t other_key  = md_->pack(other);
    completion told;

    expect_no_own_key(failed, failed_at);
    invalidate(failed, &told);
    GPU_CALL(cuMemsetD8, pool.address(), 'g', pool.size());
    EXPECT_EQ(IBV_WC_SUCCESS, write(other_at, other_key));
    EXPECT_TRUE(all_are('n', other_at));
    md_->dereg(other);
}

TEST_F(test_keys, a_key_dies_with_the_memory)
{
    gpu::buffer pool(4 * mib);
    const int before   = count_regions();
    uct_mem_h memh     = reg(pool.address());
    const uint64_t key = md_->pack(memh);
    completion told;

    EXPECT_EQ(IBV_WC_SUCCESS, write(pool.address(), key));
    const uintptr_t address = pool.address();
    pool.release();
    EXPECT_EQ(before, count_regions());
    EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, write(address, key));
    invalidate(memh, &told);
    EXPECT_EQ(before, count_regions());
}

// Runs last, as an overwritten hook counts as missing for good.
class test_md_late : public test_md {};

TEST_F(test_md_late, a_hook_that_fails_switches_identity_checks_on)
{
    gpu::buffer buffer(4 * mib);
    const auto questions_of_a_use = [&] {
        const auto all = [] {
            return calls_of("cuPointerGetAttribute") +
                   calls_of("cuPointerGetAttributes");
        };
        const uint64_t before = all();
        use(buffer.address());
        return all() - before;
    };

    questions_of_a_use();
    EXPECT_EQ(0u, questions_of_a_use());
    std::unique_ptr<gpu::buffer> other;
    {
        using ucx_ib_dmabuf::test::breakpoint;
        const breakpoint uprobe(gpu::entry<void>("cuMemFree_v2"));
        other = std::make_unique<gpu::buffer>(mib);
        questions_of_a_use();
    }
    EXPECT_LT(0u, questions_of_a_use());
}

} // namespace
