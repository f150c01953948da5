// SPDX-License-Identifier: BSD-3-Clause
//
// The plug-in's queries work with any current context, and leave contexts
// unchanged.
#include "fixture.h"
#include <string>
#include <sys/resource.h>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>

namespace {

bool primary_is_active(int ordinal)
{
    unsigned flags = 0;
    int active     = 0;
    GPU_CALL(cuDevicePrimaryCtxGetState, ordinal, &flags, &active);
    return active != 0;
}

uint64_t retained()
{
    return SIM_CALL(cuda_sim_calls, "cuDevicePrimaryCtxRetain");
}

// Releases the references that other tests left.
void release_primary(int ordinal)
{
    while (primary_is_active(ordinal)) {
        GPU_CALL(cuDevicePrimaryCtxRelease, ordinal);
    }
}

class test_contexts : public cuda_test {
protected:
    void SetUp() override
    {
        cuda_test::SetUp();
        release_primary(1);
    }

    // With this thread's context, with none, and with the second GPU's.
    void use_everywhere(uintptr_t base, size_t size, int device = 0)
    {
        use(base, size, device);
        std::thread([&] {
            use(base, size, device);
            gpu::use(1);
            use(base, size, device);
            GPU_CALL(cuDevicePrimaryCtxRelease, 1);
        }).join();
    }
};

// Another allocation may lie beside the memory.
TEST_F(test_contexts, memory_of_each_kind)
{
    for (const auto kind :
         {gpu::memory::device, gpu::memory::pool, gpu::memory::vmm}) {
        const gpu::buffer first(4 * mib, kind), second(4 * mib, kind);
        use_everywhere(first.address(), first.size());
        use_everywhere(second.address(), second.size());
    }
}

TEST_F(test_contexts, memory_of_a_context_that_is_nowhere_current)
{
    CUcontext context = gpu::create_context(1);
    gpu::buffer buffer(4 * mib);
    GPU_CALL(cuCtxPopCurrent, nullptr);
    use_everywhere(buffer.address(), buffer.size(), 1);
    GPU_CALL(cuCtxPushCurrent, context);
    buffer.release();
    GPU_CALL(cuCtxDestroy, context);
    EXPECT_FALSE(primary_is_active(1)) << "nobody needed it";
}

// The destroyed context may still be current in a thread.
TEST_F(test_contexts, memory_whose_context_is_gone_is_no_cuda_memory)
{
    gpu::use(1);
    gpu::buffer buffer(4 * mib);
    const uintptr_t address = buffer.address();
    allocation found;

    ASSERT_EQ(UCS_OK, cuda_->describe(address, &found));
    release_primary(1);
    for (bool is_current : {true, false}) {
        if (!is_current) {
            gpu::use(0);
        }
        EXPECT_EQ(UCS_ERR_NO_ELEM, cuda_->describe(address, &found));
        EXPECT_FALSE(cuda_->is_current(address, found.identity));
        int fd = -1;
        EXPECT_NE(UCS_OK, cuda_->export_range(address, mib, &fd));
    }
}

// An allocation at the beginning of its first page is freed during the export.
TEST_F(test_contexts, memory_whose_neighbour_is_freed)
{
    const gpu::buffer memory(mib);
    int fd = -1;

    const gpu::scoped_fail gone("cuPointerGetAttributes=1:2");
    EXPECT_EQ(UCS_OK, cuda_->export_range(memory.address(), mib, &fd));
    close(fd);
}

TEST_F(test_contexts, primary_contexts_do_not_stay)
{
    gpu::segments memory(1, 1);

    use_everywhere(memory.address(), memory.size(), 1);
    EXPECT_FALSE(primary_is_active(1));
}

// It is not created for that.
TEST_F(test_contexts, a_primary_context_is_kept_as_long_as_needed)
{
    gpu::use(1);
    gpu::buffer buffer(4 * mib);
    const uintptr_t address = buffer.address();
    allocation found;
    ASSERT_EQ(UCS_OK, cuda_->describe(address, &found));
    auto kept = cuda_->keep_context(address);
    GPU_CALL(cuDevicePrimaryCtxRelease, 1);
    EXPECT_TRUE(primary_is_active(1));
    EXPECT_TRUE(cuda_->is_current(address, found.identity));
    kept.reset();
    EXPECT_FALSE(primary_is_active(1));
    EXPECT_EQ(nullptr, cuda_->keep_context(address));

    CUcontext context = gpu::create_context(1);
    gpu::buffer of_other(4 * mib);
    EXPECT_EQ(nullptr, cuda_->keep_context(of_other.address()));
    EXPECT_FALSE(primary_is_active(1));
    of_other.release();
    GPU_CALL(cuCtxDestroy, context);
    gpu::use(0);
}

// A driver needs a tenth of a second to create a context. is_current() needs
// none, and ordinary memory needs none.
TEST_F(test_contexts, a_segment_takes_one_context)
{
    gpu::segments memory(2, 1);
    gpu::buffer buffer(mib);
    const uint64_t before = retained();
    allocation found;

    EXPECT_EQ(UCS_OK, cuda_->describe(memory.address(), &found));
    EXPECT_EQ(before + 1, retained());
    EXPECT_FALSE(primary_is_active(1));
    EXPECT_TRUE(cuda_->is_current(memory.address() + 1, found.identity));
    std::thread([&] {
        EXPECT_EQ(UCS_OK, cuda_->describe(buffer.address(), &found));
    }).join();
    EXPECT_EQ(before + 1, retained());
}

TEST_F(test_contexts, segments_share_a_context)
{
    gpu::segments memory(8, 1);
    uint64_t before = retained();
    segment_run found;

    EXPECT_EQ(UCS_OK, found.describe(
                          *cuda_, make_range(memory.address(), memory.size())));
    EXPECT_EQ(before + 2, retained()); // for the first segment; for all others
    before = retained();
    segment_run around;
    EXPECT_EQ(UCS_OK,
              around.describe(
                  *cuda_, make_range(memory.address() + 3 * memory.step(), 1)));
    around.extend(*cuda_, make_range(memory.address(), memory.size()));
    EXPECT_TRUE(found.range.covers(around.range)); // test_cuda checks its end
    EXPECT_EQ(before + 2, retained());
    EXPECT_FALSE(primary_is_active(1));
}

TEST_F(test_contexts, a_current_context_of_the_gpu_is_enough)
{
    gpu::segments memory(1, 1);
    CUcontext context = gpu::create_context(1);
    gpu::scoped_fail fail("cuDevicePrimaryCtxRetain=2");
    use(memory.address(), memory.size(), 1);
    GPU_CALL(cuCtxDestroy, context);
}

// A temporary error says nothing about the next call.
TEST_F(test_contexts, errors_that_pass_spend_no_warning)
{
    static unsigned warnings;
    gpu::buffer buffer(4 * mib);
    gpu::segments memory(1);
    allocation found;
    int fd = -1;

    tell_warnings_to([](const char *, const char *) { ++warnings; });
    for (const char *error : {"=901", "=719"}) { // the second one is permanent
        gpu::scoped_fail fail(std::string("cuMemGetHandleForAddressRange") +
                              error + ",cuMemGetAddressRange_v2" + error);
        EXPECT_NE(UCS_OK, cuda_->export_range(buffer.address(), mib, &fd));
        EXPECT_NE(UCS_OK, cuda_->describe(memory.address(), &found));
        EXPECT_EQ((error[1] == '9') ? 0u : 2u, warnings) << error;
    }
    tell_warnings_to(nullptr);
}

// The driver reports a lack of memory, or an unknown error.
TEST_F(test_contexts, export_without_a_descriptor_says_so)
{
    static std::string said;
    gpu::buffer buffer(4 * mib);
    const int lowest = dup(STDIN_FILENO);
    rlimit before;
    int fd = -1;

    close(lowest);
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit all_in_use{static_cast<rlim_t>(lowest), before.rlim_max};
    tell_warnings_to([](const char *, const char *remedy) { said = remedy; });
    setrlimit(RLIMIT_NOFILE, &all_in_use);
    EXPECT_NE(UCS_OK, cuda_->export_range(buffer.address(), mib, &fd));
    setrlimit(RLIMIT_NOFILE, &before);
    tell_warnings_to(nullptr);
    EXPECT_NE(said.npos, said.find("no descriptor left: raise 'ulimit -n'"))
        << said;
}

size_t free_bytes(int ordinal)
{
    size_t bytes = 0;
    size_t all   = 0;
    gpu::use(ordinal);
    GPU_CALL(cuMemGetInfo, &bytes, &all);
    return bytes;
}

TEST_F(test_contexts, pieces_are_of_gpus_in_use_and_leave_nothing)
{
    const size_t before = free_bytes(0);
    allocation found;

    using gpus = std::vector<int>;
    EXPECT_EQ(gpus{0}, cuda_->gpus_in_use());
    EXPECT_EQ(nullptr, cuda_->allocate_probe_buffer(1));
    EXPECT_EQ(nullptr, cuda_->allocate_probe_buffer(gpu::count()));
    EXPECT_FALSE(primary_is_active(1));
    std::thread([&] { // without a current context
        auto buffer = cuda_->allocate_probe_buffer(0);
        ASSERT_NE(nullptr, buffer);
        EXPECT_EQ(UCS_OK, cuda_->describe(buffer->address, &found));
        EXPECT_EQ(0, found.device);
        use(buffer->address, buffer->length);
    })
        .join();
    EXPECT_EQ(UCS_ERR_NO_ELEM, cuda_->describe(found.base, &found));
    EXPECT_EQ(before, free_bytes(0));

    // A context of the program's own suffices.
    CUcontext own = gpu::create_context(1);
    EXPECT_EQ((gpus{0, 1}), cuda_->gpus_in_use());
    EXPECT_NE(nullptr, cuda_->allocate_probe_buffer(1));
    EXPECT_FALSE(primary_is_active(1));
    GPU_CALL(cuCtxDestroy, own);
    EXPECT_EQ(nullptr, cuda_->allocate_probe_buffer(1));
}

TEST_F(test_contexts, pieces_that_fail_leave_nothing)
{
    const size_t before = free_bytes(0);

    for (const char *call :
         {"cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve",
          "cuMemMap", "cuMemSetAccess"}) {
        gpu::scoped_fail fail(std::string(call) + "=2");
        EXPECT_EQ(nullptr, cuda_->allocate_probe_buffer(0)) << call;
        EXPECT_EQ(before, free_bytes(0)) << call;
    }
    EXPECT_NE(nullptr, cuda_->allocate_probe_buffer(0));
}

} // namespace
