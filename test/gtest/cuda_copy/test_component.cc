// SPDX-License-Identifier: BSD-3-Clause
//
// The component in UCX's own libuct, which finds it as one of its own.
#include <climits>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <uct/ib_dmabuf/cuda_copy/component.h>
#include <uct/ib_dmabuf/ucx/library.h>
#include <unistd.h>
extern "C" {
#include <ucs/async/async_fwd.h>
#include <ucs/config/global_opts.h>
#include <ucs/memory/memtype_cache.h>
#include <ucs/sys/topo/base/topo.h>
#include <uct/api/uct.h>
}

namespace ours = ucx_ib_dmabuf;

// No installed header declares these.
extern "C" ucs_status_t uct_md_mem_query_v2(uct_md_h md, const void *address,
                                            size_t length,
                                            ours::uct_md_mem_attr_t *attr);
extern "C" ucs_status_t uct_iface_estimate_perf(uct_iface_h iface,
                                                ours::uct_perf_attr_t *attr);

namespace {

// Detects `memory` as a GPU's, and counts copies.
class fake_copier final : public ours::cuda_copy_ops {
public:
    bool has_gpu() noexcept override { return gpus; }
    bool begin() noexcept override { return ++begun > 0; }
    ours::ucs_status_t detect(uintptr_t address, size_t length,
                              found *out) noexcept override
    {
        const auto start = reinterpret_cast<uintptr_t>(memory);
        if ((address < start) || (address + length > start + sizeof(memory))) {
            return ours::UCS_ERR_INVALID_ADDR;
        }
        *out = {ours::UCS_MEMORY_TYPE_CUDA, start, sizeof(memory), lasts,
                on_gpu};
        return ours::UCS_OK;
    }
    bool is_exportable(uintptr_t) noexcept override { return true; }
    bool place(int which, pci_address *out) noexcept override
    {
        *out = {0x12, 0x34, static_cast<uint8_t>(which), 0};
        return which != placeless;
    }
    ours::ucs_status_t copy(void *to, const void *from, size_t length,
                            const void *gpu) noexcept override
    {
        EXPECT_TRUE((gpu == to) || (gpu == from));
        EXPECT_GE(gpu, memory);
        memcpy(to, from, length);
        ++copies;
        return answer;
    }

    bool gpus                      = true;
    bool lasts                     = false;
    static constexpr int placeless = 9;

    int on_gpu                = -1;
    int begun                 = 0;
    int copies                = 0;
    ours::ucs_status_t answer = ours::UCS_OK;
    char memory[1000]         = {};
};

fake_copier copier;

uct_component_h find_component()
{
    uct_component_h *components, found = nullptr;
    unsigned count;

    EXPECT_EQ(UCS_OK, uct_query_components(&components, &count));
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr;
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        EXPECT_EQ(UCS_OK, uct_component_query(components[i], &attr));
        found = (strcmp(attr.name, "cuda_cpy") == 0) ? components[i] : found;
    }
    uct_release_component_list(components);
    return found;
}

unsigned count_resources(uct_component_h component)
{
    uct_component_attr_t attr;

    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    EXPECT_EQ(UCS_OK, uct_component_query(component, &attr));
    return attr.md_resource_count;
}

class test_component : public ::testing::Test {
protected:
    static void SetUpTestSuite()
    {
        const char *why = nullptr;

        if (made != nullptr) {
            return;
        }
        EXPECT_EQ(nullptr, find_component());
        // UCX's CUDA module is installed, but does not load. The user may have
        // excluded it.
        const std::string module =
            std::string(getenv("UCX_PREFIX")) + "/lib/ucx/libuct_ib.so.0";
        const ours::library uct_ib(module.c_str());
        ASSERT_TRUE(uct_ib) << module;
        EXPECT_EQ(UCS_OK, ucs_global_opts_set_value("MODULES", "^cuda"));
        EXPECT_EQ(nullptr,
                  ours::cuda_copy_component::make(uct_ib, copier, &why));
        EXPECT_EQ(UCS_OK, ucs_global_opts_set_value("MODULES", "all"));
        made = ours::cuda_copy_component::make(uct_ib, copier, &why);
        ASSERT_NE(nullptr, made) << why;
        made->show();
    }
    void SetUp() override
    {
        uct_md_config_t *config;

        component_ = find_component();
        ASSERT_NE(nullptr, component_);
        ASSERT_EQ(UCS_OK,
                  uct_md_config_read(component_, nullptr, nullptr, &config));
        ASSERT_EQ(UCS_OK, uct_md_open(component_, "cuda_cpy", config, &md_));
        uct_config_release(config);
        copier.copies = 0;
        copier.answer = ours::UCS_OK;
    }
    void TearDown() override { uct_md_close(md_); }

    static ours::cuda_copy_component *made;
    uct_component_h component_ = nullptr;
    uct_md_h md_               = nullptr;
};
ours::cuda_copy_component *test_component::made;

TEST_F(test_component, without_a_gpu_there_is_no_domain)
{
    EXPECT_EQ(1u, count_resources(component_));
    copier.gpus = false;
    EXPECT_EQ(0u, count_resources(component_));
    copier.gpus = true;
}

TEST_F(test_component, the_domain_knows_gpu_memory)
{
    constexpr uint64_t host = 1, cuda = 2, managed = 4;
    uct_md_attr_t attr;
    uct_md_mem_attr_t mem;

    ASSERT_EQ(UCS_OK, uct_md_query(md_, &attr));
    EXPECT_EQ(host | cuda | managed, attr.cap.access_mem_types);
    EXPECT_EQ(cuda | managed, attr.cap.detect_mem_types);
    // UCP would allocate its pipeline's fragments in the GPU's memory.
    EXPECT_EQ(0u, attr.cap.alloc_mem_types);
    EXPECT_STREQ("cuda_cpy", attr.component_name);
    EXPECT_EQ(1, copier.begun); // for all opened domains

    mem.field_mask = UCT_MD_MEM_ATTR_FIELD_MEM_TYPE |
                     UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS |
                     UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH;
    ASSERT_EQ(UCS_OK, uct_md_mem_query(md_, copier.memory + 8, 8, &mem));
    EXPECT_EQ(::UCS_MEMORY_TYPE_CUDA, mem.mem_type);
    EXPECT_EQ(copier.memory, mem.base_address);
    EXPECT_EQ(sizeof(copier.memory), mem.alloc_length);
    EXPECT_NE(UCS_OK, uct_md_mem_query(md_, &attr, 8, &mem));

    ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
    EXPECT_EQ(UCS_OK, uct_md_detect_memory_type(md_, copier.memory, 8, &type));
    EXPECT_EQ(::UCS_MEMORY_TYPE_CUDA, type);

    uct_mem_h memh = UCT_MEM_HANDLE_NULL;
    EXPECT_EQ(UCS_OK, uct_md_mem_reg(md_, copier.memory, 8,
                                     UCT_MD_MEM_ACCESS_ALL, &memh));
    EXPECT_EQ(UCS_OK, uct_md_mem_dereg(md_, memh));
}

// Without this, each use of the memory would query the driver.
TEST_F(test_component, ucx_remembers_what_lasts)
{
    const auto in_cache = [] {
        ucs_memory_info_t info;
        return (ucs_memtype_cache_lookup(copier.memory, 8, &info) == UCS_OK) &&
               (info.type == ::UCS_MEMORY_TYPE_CUDA);
    };
    ucs_memory_type_t type;

    EXPECT_EQ(UCS_OK, uct_md_detect_memory_type(md_, copier.memory, 8, &type));
    EXPECT_FALSE(in_cache());
    copier.lasts = true;
    EXPECT_EQ(UCS_OK, uct_md_detect_memory_type(md_, copier.memory, 8, &type));
    EXPECT_TRUE(in_cache());
    copier.lasts = false;
}

TEST_F(test_component, ucx_is_told_where_a_gpu_is)
{
    const auto ask = [&](int gpu) {
        uct_md_mem_attr_t mem;
        copier.on_gpu  = gpu;
        mem.field_mask = UCT_MD_MEM_ATTR_FIELD_SYS_DEV;
        EXPECT_EQ(UCS_OK, uct_md_mem_query(md_, copier.memory, 8, &mem));
        return mem.sys_dev;
    };
    for (const int gpu : {3, 5, 3, 5}) {
        ucs_sys_bus_id_t bus{};
        ASSERT_EQ(UCS_OK, ucs_topo_get_device_bus_id(ask(gpu), &bus));
        EXPECT_EQ(0x12, bus.domain);
        EXPECT_EQ(0x34, bus.bus);
        EXPECT_EQ(gpu, bus.slot);
    }
    for (const int gpu : {-1, fake_copier::placeless}) {
        EXPECT_EQ(UCS_SYS_DEVICE_ID_UNKNOWN, ask(gpu));
    }

    ucs_memory_info_t info;
    copier.lasts = true;
    ask(5);
    EXPECT_EQ(UCS_OK, ucs_memtype_cache_lookup(copier.memory, 8, &info));
    EXPECT_EQ(ask(5), info.sys_dev);
    copier.lasts  = false;
    copier.on_gpu = -1;
}

// From UCX 1.22 on, NICs register only memory with this flag.
TEST_F(test_component, gpu_memory_can_be_registered)
{
    ours::uct_md_mem_attr_t mem{};

    mem.field_mask = ours::UCT_MD_MEM_ATTR_FIELD_MEM_FLAGS;
    EXPECT_EQ(UCS_OK, uct_md_mem_query_v2(md_, copier.memory, 8, &mem));
    EXPECT_EQ(ours::UCS_MEM_FLAG_REGISTRABLE, mem.mem_flags);
}

// An interface that is connected with itself, as in UCP.
class test_interface : public test_component {
protected:
    void SetUp() override
    {
        uct_iface_config_t *config;
        uct_iface_params_t params{};
        uct_tl_resource_desc_t *devices;
        unsigned count = 0;
        uint64_t address[8];
        uct_ep_params_t ep_params{};

        test_component::SetUp();
        ASSERT_EQ(UCS_OK, uct_md_query_tl_resources(md_, &devices, &count));
        ASSERT_EQ(1u, count);
        EXPECT_STREQ("cuda_copy", devices->tl_name);
        EXPECT_EQ(UCT_DEVICE_TYPE_ACC, devices->dev_type);
        ASSERT_EQ(UCS_OK, ucs_async_context_create(UCS_ASYNC_MODE_THREAD_MUTEX,
                                                   &async_));
        ASSERT_EQ(UCS_OK,
                  uct_worker_create(async_, UCS_THREAD_MODE_SINGLE, &worker_));
        ASSERT_EQ(UCS_OK, uct_md_iface_config_read(md_, "cuda_copy", nullptr,
                                                   nullptr, &config));
        params.field_mask =
            UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
        params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
        params.mode.device.tl_name  = devices->tl_name;
        params.mode.device.dev_name = devices->dev_name;
        ASSERT_EQ(UCS_OK,
                  uct_iface_open(md_, worker_, &params, config, &iface_));
        uct_config_release(config);
        uct_release_tl_resource_list(devices);

        ASSERT_EQ(UCS_OK, uct_iface_query(iface_, &attr_));
        ASSERT_LE(attr_.iface_addr_len, sizeof(address));
        const auto at = reinterpret_cast<uct_iface_addr_t *>(address);
        ASSERT_EQ(UCS_OK, uct_iface_get_address(iface_, at));
        EXPECT_TRUE(uct_iface_is_reachable(iface_, nullptr, at));
        ep_params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                               UCT_EP_PARAM_FIELD_DEV_ADDR |
                               UCT_EP_PARAM_FIELD_IFACE_ADDR;
        ep_params.iface      = iface_;
        ep_params.iface_addr = at;
        ASSERT_EQ(UCS_OK, uct_ep_create(&ep_params, &ep_));
    }
    void TearDown() override
    {
        uct_ep_destroy(ep_);
        uct_iface_close(iface_);
        uct_worker_destroy(worker_);
        ucs_async_context_destroy(async_);
        test_component::TearDown();
    }

    uint64_t remote() const
    {
        return reinterpret_cast<uint64_t>(copier.memory);
    }

    ucs_async_context_t *async_ = nullptr;
    uct_worker_h worker_        = nullptr;
    uct_iface_h iface_          = nullptr;
    uct_ep_h ep_                = nullptr;
    uct_iface_attr_t attr_{};
};

TEST_F(test_interface, offers_copies_and_nothing_else)
{
    EXPECT_EQ(UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PENDING |
                  UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_ZCOPY |
                  UCT_IFACE_FLAG_GET_SHORT | UCT_IFACE_FLAG_GET_ZCOPY,
              attr_.cap.flags);
    EXPECT_EQ(UINT_MAX, attr_.cap.put.max_short);
    EXPECT_EQ(SIZE_MAX, attr_.cap.get.max_zcopy);
    EXPECT_EQ(0u, attr_.cap.am.max_short);
    EXPECT_GT(attr_.latency.c, 0);
    EXPECT_GT(attr_.bandwidth.shared, 0);
}

// UCP would use it for messages of a process to itself.
TEST_F(test_interface, host_memory_is_not_copied_to_host_memory)
{
    constexpr auto host = ours::UCS_MEMORY_TYPE_HOST;
    constexpr auto cuda = ours::UCS_MEMORY_TYPE_CUDA;
    const auto estimate = [&](uint64_t mask, auto local, auto remote) {
        ours::uct_perf_attr_t attr{mask, {}, local, remote, 0, 0,
                                   0,    0,  0,     {},     {}};
        return uct_iface_estimate_perf(iface_, &attr);
    };

    EXPECT_EQ(UCS_ERR_UNSUPPORTED, estimate(7, host, host));
    EXPECT_EQ(UCS_OK, estimate(7, host, cuda));
    EXPECT_EQ(UCS_OK, estimate(7, cuda, host));
    EXPECT_EQ(UCS_OK, estimate(1, host, host)); // no types are given
}

TEST_F(test_interface, short_and_zero_copy)
{
    char out[100] = "from the host", in[100] = "";
    uct_completion_t never{};
    uct_iov_t iov{out, sizeof(out), nullptr, 0, 1};

    EXPECT_EQ(UCS_OK, uct_ep_put_short(ep_, out, sizeof(out), remote(), 0));
    EXPECT_EQ(UCS_OK, uct_ep_get_short(ep_, in, sizeof(in), remote(), 0));
    EXPECT_STREQ(out, in);

    out[0] = 'F';
    EXPECT_EQ(UCS_OK, uct_ep_put_zcopy(ep_, &iov, 1, remote(), 0, &never));
    EXPECT_STREQ(out, copier.memory);
    iov.buffer = in;
    EXPECT_EQ(UCS_OK, uct_ep_get_zcopy(ep_, &iov, 1, remote(), 0, &never));
    EXPECT_STREQ(out, in);
    EXPECT_EQ(4, copier.copies);

    EXPECT_EQ(UCS_OK, uct_iface_flush(iface_, 0, nullptr));
    EXPECT_EQ(UCS_OK, uct_ep_flush(ep_, 0, nullptr));
}

TEST_F(test_interface, a_failure_is_passed_on)
{
    char some[8] = "";

    copier.answer = ours::UCS_ERR_IO_ERROR;
    EXPECT_EQ(UCS_ERR_IO_ERROR, uct_ep_put_short(ep_, some, 8, remote(), 0));
    EXPECT_EQ(UCS_ERR_IO_ERROR, uct_ep_get_short(ep_, some, 8, remote(), 0));
}

TEST_F(test_component, a_second_one_is_not_made)
{
    const char *why = nullptr;

    EXPECT_EQ(nullptr, ours::cuda_copy_component::make(
                           ours::library("libuct.so.0"), copier, &why));
    EXPECT_NE(nullptr, strstr(why, "has CUDA"));
}

} // namespace

// UCX's CUDA modules must not load, so the program restarts without the
// simulated GPU's libraries.
int main(int argc, char **argv)
{
    constexpr char name[]    = "LD_LIBRARY_PATH";
    const char *const prefix = getenv("UCX_PREFIX");
    const std::string ucx    = std::string(prefix ? prefix : "") + "/lib";

    if (const char *now = getenv(name); (now != nullptr) && (ucx != now)) {
        setenv(name, ucx.c_str(), 1);
        execv("/proc/self/exe", argv);
    }
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
