// SPDX-License-Identifier: BSD-3-Clause
//
// The lab's NIC is soft-RoCE with our kernel patch and preload library. It
// imports dma-bufs and returns the errors of real NICs' drivers: mlx5, bnxt_re
// and others pass the same checks in the kernel's RDMA core.
#include "soft_roce.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ucx_ib_dmabuf::test {
namespace {

const auto PAGE   = static_cast<size_t>(sysconf(_SC_PAGESIZE));
const size_t SIZE = 16 * PAGE;

class test_verbs_dmabuf : public testing::Test {
protected:
    test_verbs_dmabuf() : host_(SIZE, 'h'), host_mr_(nic_.reg(host_))
    {
        std::fill_n(buffer_.bytes(), SIZE, uint8_t{'b'});
    }

    std::vector<uint8_t> contents()
    {
        return {buffer_.bytes(), buffer_.bytes() + SIZE};
    }

    ibv_wc_status write(uint64_t remote, uint32_t rkey, size_t length)
    {
        return nic_.transfer(IBV_WR_RDMA_WRITE, host_.data(), host_mr_->lkey,
                             remote, rkey, length);
    }

    nic nic_;
    dma_buf buffer_{SIZE};
    std::vector<uint8_t> host_;
    region host_mr_;
};

TEST_F(test_verbs_dmabuf, honours_offset_length_and_iova)
{
    const size_t OFFSET         = 3 * PAGE + 512;
    const size_t LENGTH         = 2 * PAGE + 100;
    const uint64_t IOVA         = 77 * PAGE + 512;
    region mr                   = nic_.reg(buffer_.fd(), OFFSET, LENGTH, IOVA);
    std::vector<uint8_t> wanted = contents();

    EXPECT_EQ(mr->length, LENGTH);
    std::copy_n(host_.begin(), LENGTH, wanted.begin() + OFFSET);
    ASSERT_EQ(write(IOVA, mr->rkey, LENGTH), IBV_WC_SUCCESS);
    EXPECT_TRUE(contents() == wanted);

    EXPECT_EQ(write(IOVA - 1, mr->rkey, 1), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(write(IOVA + LENGTH, mr->rkey, 1), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(write(IOVA, mr->rkey, LENGTH + 1), IBV_WC_REM_ACCESS_ERR);
    EXPECT_TRUE(contents() == wanted);
}

struct mistake {
    const char *name;
    int fd; /* a descriptor, or one of the two constants below */
    uint64_t offset;
    size_t length;
    uint64_t iova;
    int access;
    int error;
};

constexpr int DMA_BUF    = -100;
constexpr int MEMORY     = -101;
const mistake MISTAKES[] = {
    {"none", DMA_BUF, 0, SIZE, 0, ALL_ACCESS, 0},
    {"relaxed_ordering", DMA_BUF, 0, SIZE, 0,
     ALL_ACCESS | IBV_ACCESS_RELAXED_ORDERING, 0},
    {"probe_with_fd_minus_1", -1, 0, PAGE, 0, ALL_ACCESS, EBADF},
    {"closed_fd", 999, 0, PAGE, 0, ALL_ACCESS, EBADF},
    {"not_a_dma_buf", MEMORY, 0, PAGE, 0, ALL_ACCESS, EINVAL},
    {"beyond_the_end", DMA_BUF, PAGE, SIZE, PAGE, ALL_ACCESS, EINVAL},
    {"starts_beyond_the_end", DMA_BUF, SIZE, 1, SIZE, ALL_ACCESS, EINVAL},
    {"offset_overflows", DMA_BUF, UINT64_MAX - PAGE + 1, SIZE, 0, ALL_ACCESS,
     EINVAL},
    {"iova_on_another_page_offset", DMA_BUF, 100, PAGE, 0, ALL_ACCESS, EINVAL},
    {"no_length", DMA_BUF, 0, 0, 0, ALL_ACCESS, EINVAL},
    {"remote_write_without_local", DMA_BUF, 0, PAGE, 0, IBV_ACCESS_REMOTE_WRITE,
     EINVAL},
    {"on_demand", DMA_BUF, 0, PAGE, 0, ALL_ACCESS | IBV_ACCESS_ON_DEMAND,
     EINVAL},
    {"memory_windows", DMA_BUF, 0, PAGE, 0, ALL_ACCESS | IBV_ACCESS_MW_BIND,
     EINVAL},
};

class test_verbs_dmabuf_mistakes : public test_verbs_dmabuf,
                                   public testing::WithParamInterface<mistake> {
};

TEST_P(test_verbs_dmabuf_mistakes, answer)
{
    const mistake &m = GetParam();
    int fd           = (m.fd == DMA_BUF)  ? buffer_.fd()
                       : (m.fd == MEMORY) ? buffer_.memory_fd()
                                          : m.fd;
    int error        = 0;

    try {
        nic_.reg(fd, m.offset, m.length, m.iova, m.access);
    } catch (const std::system_error &failed) {
        error = failed.code().value();
    }
    EXPECT_EQ(m.error, error);
}

INSTANTIATE_TEST_SUITE_P(all, test_verbs_dmabuf_mistakes,
                         testing::ValuesIn(MISTAKES), [](const auto &test) {
                             return std::string(test.param.name);
                         });

} // namespace
} // namespace ucx_ib_dmabuf::test
