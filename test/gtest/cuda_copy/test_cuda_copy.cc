// SPDX-License-Identifier: BSD-3-Clause
//
// Detection and copies for a UCX without CUDA.
#include <common/fds.h>
#include <common/gpu.h>
#include <common/linked_ucx.h>
#include <common/sim.h>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <ucm/cuda_events.h>
#include <uct/ib_dmabuf/cuda_copy/cuda_copy.h>
#include <uct/ib_dmabuf/ucx/ucm.h>
#include <vector>

namespace ours = ucx_ib_dmabuf;
using gpu::memory;

namespace {

constexpr size_t mib   = 1 << 20;
constexpr auto cuda    = ours::UCS_MEMORY_TYPE_CUDA;
constexpr auto managed = ours::UCS_MEMORY_TYPE_CUDA_MANAGED;

const bool linked = (ours::test::use_linked_ucx(), true);

constexpr memory all_kinds[] = {
    memory::host,    memory::device, memory::pool,       memory::vmm,
    memory::managed, memory::pinned, memory::mapped_host};

class test_copier : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        copier_ = ours::find_cuda_copy_ops();
        ASSERT_NE(nullptr, copier_);
        ASSERT_TRUE(copier_->has_gpu());
    }

    // UCX treats memory with UCS_ERR_INVALID_ADDR as host memory.
    ours::ucs_status_t detect(uintptr_t address, size_t length)
    {
        const int open = count_fds();
        const ours::ucs_status_t status =
            copier_->detect(address, length, &(found_ = {}));

        EXPECT_EQ(open, count_fds());
        return status;
    }

    void expect_type(ours::ucs_memory_type_t type, uintptr_t address,
                     size_t length = mib)
    {
        ASSERT_EQ(ours::UCS_OK, detect(address, length));
        EXPECT_EQ(type, found_.type);
    }

    void copy(const void *to, const void *from, size_t length, const void *gpu)
    {
        EXPECT_EQ(ours::UCS_OK,
                  copier_->copy(const_cast<void *>(to), from, length, gpu));
    }

    // Copies a pattern to the first buffer, to the second one, and back.
    void pass_through(const gpu::buffer &first, const gpu::buffer &second)
    {
        std::vector<uint8_t> out(first.size()), in(first.size());

        for (size_t i = 0; i < out.size(); ++i) {
            out[i] = static_cast<uint8_t>(i * 7 + ++seed_);
        }
        if (gpu::is_device(first.kind())) {
            copy(first.pointer(), out.data(), out.size(), first.pointer());
        } else {
            memcpy(first.pointer(), out.data(), out.size());
        }
        copy(second.pointer(), first.pointer(), out.size(), second.pointer());
        if (gpu::is_device(second.kind())) {
            copy(in.data(), second.pointer(), in.size(), second.pointer());
        } else {
            memcpy(in.data(), second.pointer(), in.size());
        }
        EXPECT_EQ(out, in) << gpu::name_of(first.kind()) << " to "
                           << gpu::name_of(second.kind());
    }

    ours::cuda_copy_ops *copier_ = nullptr;
    ours::cuda_copy_ops::found found_{};
    uint8_t seed_ = 0;
};

TEST_F(test_copier, it_knows_where_a_gpu_is)
{
    ours::cuda_copy_ops::pci_address place{};

    for (const int gpu : {0, 1}) {
        int domain = 0, bus = 0;
        gpu::use(gpu);
        const gpu::buffer some(2 * mib, memory::device);
        EXPECT_EQ(ours::UCS_OK, detect(some.address(), some.size()));
        EXPECT_EQ(gpu, found_.gpu);
        GPU_CALL(cuDeviceGetAttribute, &domain,
                 CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, gpu);
        GPU_CALL(cuDeviceGetAttribute, &bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                 gpu);
        ASSERT_TRUE(copier_->place(gpu, &place));
        EXPECT_EQ(domain, place.domain);
        EXPECT_EQ(bus, place.bus);
        EXPECT_EQ(0, place.slot);
    }
    EXPECT_FALSE(copier_->place(1000, &place));
    gpu::use();
}

TEST_F(test_copier, each_kind_is_what_it_is)
{
    for (const memory kind : all_kinds) {
        const gpu::buffer some(2 * mib, kind);
        const bool is_host = (kind == memory::host) || (kind == memory::pinned);

        ASSERT_EQ(is_host ? ours::UCS_ERR_INVALID_ADDR : ours::UCS_OK,
                  detect(some.address() + 4100, mib))
            << gpu::name_of(kind);
        if (is_host) {
            continue;
        }
        // The CPU may not access mapped host memory, so UCX must not, either.
        const bool is_only_copied =
            (kind == memory::managed) || (kind == memory::mapped_host);
        EXPECT_EQ(is_only_copied ? managed : cuda, found_.type)
            << gpu::name_of(kind);
        EXPECT_LE(found_.base, some.address() + 4100);
        EXPECT_GE(found_.base + found_.length, some.address() + 4100 + mib);
        if (kind == memory::device) {
            EXPECT_EQ(some.address(), found_.base);
            EXPECT_EQ(some.size(), found_.length);
        }
    }
}

// Otherwise cudaMemcpy() would return before the bytes have arrived.
TEST_F(test_copier, copies_of_the_program_are_waited_for)
{
    const gpu::buffer some(mib);
    unsigned synchronous = 0;

    ASSERT_EQ(ours::UCS_OK, detect(some.address(), mib));
    GPU_CALL(cuPointerGetAttribute, &synchronous,
             ::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, some.address());
    EXPECT_EQ(1u, synchronous);
}

TEST_F(test_copier, what_the_hooks_saw_may_be_remembered)
{
    const bool seen = ours::cuda_events_complete(); // the hooks saw `older`
    const gpu::buffer older(mib);
    EXPECT_TRUE(copier_->begin());
    const gpu::buffer some(mib), other(mib, memory::managed);

    ASSERT_EQ(ours::UCS_OK, detect(some.address(), mib));
    EXPECT_TRUE(found_.lasts);
    ASSERT_EQ(ours::UCS_OK, detect(other.address(), mib));
    EXPECT_FALSE(found_.lasts);
    ASSERT_EQ(ours::UCS_OK, detect(older.address(), mib));
    EXPECT_EQ(seen, found_.lasts);
}

TEST_F(test_copier, nothing_lasts_where_releases_go_unseen)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // a process of its own
    EXPECT_EXIT(
        {
            CUstream stream;
            CUdeviceptr address;
            copier_->begin();
            const gpu::buffer some(mib);
            GPU_CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
            GPU_CALL(cuStreamBeginCapture, stream,
                     CU_STREAM_CAPTURE_MODE_GLOBAL);
            GPU_CALL(cuMemAllocAsync, &address, mib, stream); // graph memory
            exit((detect(some.address(), mib) != ours::UCS_OK) + found_.lasts);
        },
        testing::ExitedWithCode(0), "");
}

// If it were registered, UCX's first operation would fail.
TEST_F(test_copier, what_is_never_exported_is_copied)
{
    const gpu::buffer incapable(mib, memory::incapable);

    for (const memory kind : {memory::variable, memory::opened}) {
        const gpu::buffer some(mib, kind);
        expect_type(managed, some.address());
        EXPECT_FALSE(copier_->is_exportable(some.address()));
    }
    const gpu::scoped_fail fail("cuMemGetHandleForAddressRange=801");
    expect_type(managed, incapable.address());
    EXPECT_FALSE(copier_->is_exportable(incapable.address()));
}

TEST_F(test_copier, every_kind_to_every_kind)
{
    for (const memory first : all_kinds) {
        for (const memory second : all_kinds) {
            if (gpu::is_device(first) || gpu::is_device(second)) {
                pass_through(gpu::buffer(70001, first),
                             gpu::buffer(70001, second));
            }
        }
    }
}

TEST_F(test_copier, the_gpus_side_is_found)
{
    const gpu::buffer some(64);
    char out[64] = "of the host", in[64] = "";

    copy(some.pointer(), out, sizeof(out), out);
    copy(in, some.pointer(), sizeof(in), in);
    copy(in, nullptr, 0, nullptr); // no bytes
    EXPECT_STREQ(out, in);
}

TEST_F(test_copier, two_gpus)
{
    const gpu::buffer first(mib);
    gpu::use(1);
    const gpu::buffer second(mib);

    pass_through(first, second);
    pass_through(second, first);
    gpu::use(0);
    const gpu::segments mapped(1); // without access for the second GPU
    const auto *at = reinterpret_cast<const void *>(mapped.address());
    copy(at, second.pointer(), mib, second.pointer());
    copy(second.pointer(), at, mib, second.pointer());
}

TEST_F(test_copier, a_stream_goes_on_to_capture)
{
    const gpu::buffer first(mib), second(mib, memory::vmm);
    gpu::capture capture;

    pass_through(first, second);
    EXPECT_EQ(ours::UCS_OK, detect(first.address(), mib));
    EXPECT_EQ(ours::UCS_OK, detect(second.address(), mib));
    EXPECT_TRUE(capture.end());
}

// The program has caused an error, the process was forked, or the driver ends.
TEST_F(test_copier, memory_of_the_host_whatever_the_driver_answers)
{
    const std::vector<char> out(mib, 'o');
    ours::may_be_allocated(0, 1); // creates UCX's cache of types
    const gpu::buffer some(mib);
    for (const char *error : {"3", "4", "201", "709", "999"}) {
        std::vector<char> in(mib);
        gpu::scoped_fail fail(std::string("cuPointerGetAttribute=") + error +
                              ",cuPointerGetAttributes=" + error);
        EXPECT_EQ(ours::UCS_OK, detect(some.address(), mib)); // not the host's
        copy(in.data(), out.data(), mib, in.data());
        EXPECT_EQ(out, in) << error;
        EXPECT_NE(ours::UCS_OK,
                  copier_->copy(in.data(), some.pointer(), mib, in.data()));
    }
}

TEST_F(test_copier, memory_that_is_gone_is_an_error)
{
    std::vector<char> host(mib, 'x');
    gpu::buffer some(mib);
    void *const gone = reinterpret_cast<void *>(some.address());

    some.release();
    EXPECT_NE(ours::UCS_OK, copier_->copy(host.data(), gone, mib, host.data()));
    EXPECT_NE(ours::UCS_OK, copier_->copy(gone, host.data(), mib, gone));
    EXPECT_EQ(std::vector<char>(mib, 'x'), host);
}

TEST_F(test_copier, memory_that_no_context_reaches_is_not_the_hosts)
{
    const gpu::segments mapped(1, 1);
    std::vector<char> host(mib, 'x');

    for (const char *call :
         {"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2"}) {
        gpu::scoped_fail fail(std::string(call) + "=1");
        EXPECT_NE(ours::UCS_OK,
                  copier_->copy(host.data(),
                                reinterpret_cast<void *>(mapped.address()), mib,
                                host.data()))
            << call;
    }
    EXPECT_EQ(std::vector<char>(mib, 'x'), host);
}

// An address, and whether UCX was notified that its type is unknown.
struct watched {
    uintptr_t address;
    bool told;
};

void on_event(ours::ucm_event_type_t, ours::ucm_event_t *event,
              void *arg) noexcept
{
    auto &one          = *static_cast<watched *>(arg);
    const auto &memory = event->mem_type;
    const auto start   = reinterpret_cast<uintptr_t>(memory.address);

    one.told |= (memory.mem_type == ours::all_ucm().front()->unknown_type) &&
                (one.address >= start) && (one.address - start < memory.size);
}

TEST_F(test_copier, memory_older_than_the_hooks_is_asked_for)
{
    const gpu::buffer some(mib);
    static watched here, host;

    here.address = some.address();
    host.address = reinterpret_cast<uintptr_t>(&host);
    for (watched *one : {&here, &host}) {
        ASSERT_EQ(ours::UCS_OK, ours::all_ucm().front()->set_event_handler(
                                    ours::UCM_EVENT_MEM_TYPE_ALLOC |
                                        ours::UCM_EVENT_FLAG_NO_INSTALL,
                                    0, on_event, one));
    }
    copier_->begin();
    EXPECT_TRUE(here.told);
    EXPECT_FALSE(host.told);
}

} // namespace
