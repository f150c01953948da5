// SPDX-License-Identifier: BSD-3-Clause
//
// A miss and a release, each in a function of its own. docs/steps.tap compares
// their calls with the drawings in docs/architecture.md.
#include "fake_domain.h"

extern "C" {
[[gnu::noinline]] uct_mem_h step_miss(fake_domain &md, uintptr_t address,
                                      size_t length)
{
    return md.reg(address, length);
}

[[gnu::noinline]] void step_release(std::unique_ptr<gpu::buffer> &memory)
{
    memory.reset();
}
}

namespace {

constexpr size_t mib = 1 << 20;

// The first registrations also check the path, which the fake NIC does not let
// them do, and ask the GPU once for its properties.
TEST(test_steps, a_plain_miss_and_a_release)
{
    const auto md = first_fake_domain();
    for (int i = 0; i < 4; ++i) {
        gpu::buffer first(mib, gpu::memory::device);
        EXPECT_EQ(UCS_OK, md->dereg(md->reg(first.address(), mib)));
    }

    auto memory = std::make_unique<gpu::buffer>(mib, gpu::memory::device);
    ASSERT_EQ(UCS_OK, md->dereg(step_miss(*md, memory->address(), mib)));
    EXPECT_EQ(1u, fake_ib::now.regions.size());
    step_release(memory);
    EXPECT_EQ(0u, fake_ib::now.regions.size());
}

} // namespace
