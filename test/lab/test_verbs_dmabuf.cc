// SPDX-License-Identifier: BSD-3-Clause
/*
 * The lab's NIC is soft-RoCE with our kernel patch and preload library. It
 * imports dma-bufs and returns the errors of real NICs' drivers: mlx5, bnxt_re
 * and others pass the same checks in the kernel's RDMA core.
 */
#include "soft_roce.h"

#include <algorithm>
#include <cerrno>
#include <common/nic.h>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t PAGE = 4096;
constexpr size_t SIZE = 256 * PAGE;

class test_verbs_dmabuf : public testing::Test {
protected:
    test_verbs_dmabuf() : m_host(SIZE, 'h'), m_host_mr(m_nic.reg(m_host))
    {
        std::fill_n(m_buffer.bytes(), SIZE, uint8_t{'b'});
    }

    std::vector<uint8_t> contents()
    {
        return {m_buffer.bytes(), m_buffer.bytes() + SIZE};
    }

    ibv_wc_status write(uint64_t remote, uint32_t rkey, size_t length)
    {
        return m_nic.transfer(IBV_WR_RDMA_WRITE, m_host.data(), m_host_mr->lkey,
                              remote, rkey, length);
    }

    nic m_nic;
    dma_buf m_buffer{SIZE};
    std::vector<uint8_t> m_host;
    region m_host_mr;
};

TEST_F(test_verbs_dmabuf, honours_offset_length_and_iova)
{
    constexpr size_t OFFSET = 3 * PAGE + 512;
    constexpr size_t LENGTH = 2 * PAGE + 100;
    constexpr uint64_t IOVA = 77 * PAGE + 512;
    region mr               = m_nic.reg(m_buffer.fd(), OFFSET, LENGTH, IOVA);
    std::vector<uint8_t> wanted = contents();

    EXPECT_EQ(mr->length, LENGTH);
    std::copy_n(m_host.begin(), LENGTH, wanted.begin() + OFFSET);
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

constexpr int DMA_BUF        = -100;
constexpr int MEMORY         = -101;
constexpr mistake MISTAKES[] = {
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
    int fd           = (m.fd == DMA_BUF)  ? m_buffer.fd()
                       : (m.fd == MEMORY) ? m_buffer.memory_fd()
                                          : m.fd;

    EXPECT_EQ(m_nic.reg_errno(fd, m.offset, m.length, m.iova, m.access),
              m.error);
}

INSTANTIATE_TEST_SUITE_P(all, test_verbs_dmabuf_mistakes,
                         testing::ValuesIn(MISTAKES), [](const auto &test) {
                             return std::string(test.param.name);
                         });

TEST_F(test_verbs_dmabuf, failures_can_be_injected)
{
    const auto outcome = [&](int fd) {
        return m_nic.reg_errno(fd, 0, PAGE, 0);
    };

    setenv("RXE_DMABUF_FAIL", "EOPNOTSUPP", 1);
    EXPECT_EQ(outcome(-1), EOPNOTSUPP);
    EXPECT_EQ(outcome(m_buffer.fd()), EOPNOTSUPP);

    setenv("RXE_DMABUF_FAIL", "ENOMEM:2-3", 1);
    EXPECT_EQ(outcome(-1), EBADF);
    EXPECT_EQ(outcome(m_buffer.fd()), 0);
    EXPECT_EQ(outcome(m_buffer.fd()), ENOMEM);
    EXPECT_EQ(outcome(m_buffer.fd()), ENOMEM);
    EXPECT_EQ(outcome(m_buffer.fd()), 0);

    setenv("RXE_DMABUF_FAIL", "524:2-", 1);
    EXPECT_EQ(outcome(m_buffer.fd()), 0);
    EXPECT_EQ(outcome(m_buffer.fd()), 524);
    EXPECT_EQ(outcome(m_buffer.fd()), 524);

    setenv("RXE_DMABUF_FAIL", "EIO:1", 1);
    EXPECT_EQ(outcome(m_buffer.fd()), EIO);
    EXPECT_EQ(outcome(m_buffer.fd()), 0);
    unsetenv("RXE_DMABUF_FAIL");
}

TEST_F(test_verbs_dmabuf, registrations_are_counted)
{
    const auto before = ::nic::counters(); // counts dma-bufs only: the fixture
                                           // registers host memory, too
    region first  = m_nic.reg(m_buffer.fd(), 0, SIZE, 0);
    region second = m_nic.reg(m_buffer.fd(), 0, PAGE, 0);
    m_nic.reg_errno(-1, 0, PAGE, 0);

    EXPECT_EQ(::nic::counters().registrations, before.registrations + 2);
    EXPECT_EQ(::nic::counters().live, before.live + 2);
    EXPECT_EQ(::nic::counters().live_bytes, before.live_bytes + SIZE + PAGE);
    first.reset();
    m_host_mr.reset();
    EXPECT_EQ(::nic::counters().registrations, before.registrations + 2);
    EXPECT_EQ(::nic::counters().live, before.live + 1);
    EXPECT_EQ(::nic::counters().live_bytes, before.live_bytes + PAGE);
}

TEST_F(test_verbs_dmabuf, room_can_be_limited)
{
    setenv("RXE_DMABUF_ROOM", std::to_string(SIZE).c_str(), 1);
    region first = m_nic.reg(m_buffer.fd(), 0, SIZE - PAGE, 0);
    EXPECT_EQ(m_nic.reg_errno(m_buffer.fd(), 0, PAGE + 1, 0), ENOMEM);
    EXPECT_EQ(m_nic.reg_errno(m_buffer.fd(), 0, PAGE, 0), 0);
    first.reset();
    EXPECT_EQ(m_nic.reg_errno(m_buffer.fd(), 0, SIZE, 0), 0);
    unsetenv("RXE_DMABUF_ROOM");
}

} // namespace
} // namespace ucx_ib_dmabuf::test
