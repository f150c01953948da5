// SPDX-License-Identifier: BSD-3-Clause
//
// The lab's NIC is soft-RoCE with our kernel patch and preload library. It
// imports dma-bufs and returns the errors of real NICs' drivers: mlx5, bnxt_re
// and others pass the same checks in the kernel's RDMA core. The path check's
// connection makes the transfers.
#include <algorithm>
#include <cerrno>
#include <mpi/buffer.h>
#include <string>
#include <sys/mman.h>
#include <uct/ib_dmabuf/path/loopback.h>
#include <uct/ib_dmabuf/ucx/library.h>

#include <gtest/gtest.h>

namespace ucx_ib_dmabuf::test {
namespace {

const auto PAGE   = static_cast<size_t>(sysconf(_SC_PAGESIZE));
const size_t SIZE = 16 * PAGE;

protection_domain open_first()
{
    static verbs_functions verbs;
    ibv_device **list = ibv_get_device_list(nullptr);

    look_up_verbs(library("libibverbs.so.1"), &verbs);
    return {ibv_alloc_pd(ibv_open_device(list[0])), &verbs};
}

class test_verbs_dmabuf : public testing::Test {
protected:
    test_verbs_dmabuf()
    {
        std::fill_n(reinterpret_cast<char *>(host_.at().address), SIZE, 'h');
        write_memory(memory::device, exported_.at(), expected_);
        GPU_CALL(cuMemGetHandleForAddressRange, &fd_, exported_.address(), SIZE,
                 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    }
    ~test_verbs_dmabuf() override { close(fd_); }

    // Writes from host memory. Returns the error, or nothing.
    std::string write(uint64_t remote, const ibv_mr *mr, size_t length)
    {
        const transfer one = {verb::write,
                              host_.at(),
                              {remote, 0, mr->rkey},
                              static_cast<uint32_t>(length)};
        const auto error   = loopback(pd_).run({&one, 1});
        return error ? error->c_str() : "";
    }
    void expect_bytes() const
    {
        EXPECT_TRUE(read_memory(memory::device, exported_.at(), SIZE) ==
                    expected_);
    }

    static void SetUpTestSuite() { gpu::use(); }

    const protection_domain pd_ = open_first();
    const host_pages host_{pd_, SIZE};
    const buffer exported_{memory::device, SIZE};
    std::vector<uint8_t> expected_ = std::vector<uint8_t>(SIZE, 'b');
    int fd_                        = -1;
};

TEST_F(test_verbs_dmabuf, honours_offset_length_and_iova)
{
    const size_t OFFSET  = 3 * PAGE + 512;
    const size_t LENGTH  = 2 * PAGE + 100;
    const uint64_t IOVA  = 77 * PAGE + 512;
    const char refused[] = "remote access error";
    ibv_mr *mr =
        ibv_reg_dmabuf_mr(pd_.verbs_pd, OFFSET, LENGTH, IOVA, fd_, all_access);

    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(mr->length, LENGTH);
    std::fill_n(expected_.begin() + OFFSET, LENGTH, 'h');
    EXPECT_EQ(write(IOVA, mr, LENGTH), "");
    expect_bytes();

    EXPECT_NE(write(IOVA - 1, mr, 1).find(refused), std::string::npos);
    EXPECT_NE(write(IOVA + LENGTH, mr, 1).find(refused), std::string::npos);
    EXPECT_NE(write(IOVA, mr, LENGTH + 1).find(refused), std::string::npos);
    expect_bytes();
    ibv_dereg_mr(mr);
}

TEST_F(test_verbs_dmabuf, refuses_mistakes)
{
    constexpr int DMA_BUF = -100, MEMORY = -101; // in place of a descriptor
    const struct {
        const char *name;
        int fd;
        uint64_t offset;
        size_t length;
        uint64_t iova;
        int access, error;
    } mistakes[] = {
        {"none", DMA_BUF, 0, SIZE, 0, all_access, 0},
        {"relaxed ordering", DMA_BUF, 0, SIZE, 0,
         all_access | IBV_ACCESS_RELAXED_ORDERING, 0},
        {"a probe", -1, 0, PAGE, 0, all_access, EBADF},
        {"closed", 999, 0, PAGE, 0, all_access, EBADF},
        {"no dma-buf", MEMORY, 0, PAGE, 0, all_access, EINVAL},
        {"beyond the end", DMA_BUF, PAGE, SIZE, PAGE, all_access, EINVAL},
        {"starts at the end", DMA_BUF, SIZE, 1, SIZE, all_access, EINVAL},
        {"offset overflows", DMA_BUF, -PAGE, SIZE, 0, all_access, EINVAL},
        {"iova on another offset", DMA_BUF, 100, PAGE, 0, all_access, EINVAL},
        {"no length", DMA_BUF, 0, 0, 0, all_access, EINVAL},
        {"remote write only", DMA_BUF, 0, PAGE, 0, IBV_ACCESS_REMOTE_WRITE,
         EINVAL},
        {"on demand", DMA_BUF, 0, PAGE, 0, all_access | IBV_ACCESS_ON_DEMAND,
         EINVAL},
        {"memory windows", DMA_BUF, 0, PAGE, 0, all_access | IBV_ACCESS_MW_BIND,
         EINVAL},
    };
    const int file = memfd_create("memory", 0);

    ASSERT_EQ(ftruncate(file, static_cast<off_t>(SIZE)), 0);
    for (const auto &each : mistakes) {
        const int fd = (each.fd == DMA_BUF)  ? fd_
                       : (each.fd == MEMORY) ? file
                                             : each.fd;
        ibv_mr *mr   = ibv_reg_dmabuf_mr(pd_.verbs_pd, each.offset, each.length,
                                         each.iova, fd, each.access);
        EXPECT_EQ(mr ? 0 : errno, each.error) << each.name;
        if (mr != nullptr) {
            ibv_dereg_mr(mr);
        }
    }
    close(file);
}

} // namespace
} // namespace ucx_ib_dmabuf::test
