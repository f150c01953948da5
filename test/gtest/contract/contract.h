// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <memory>

namespace ucx_ib_dmabuf {

template <typename World, typename Made>
std::unique_ptr<World> make()
{
    return std::make_unique<Made>();
}

// The tests of a contract, in each world that they are instantiated with. The
// parameter makes it; nullptr: this machine has none.
template <typename World>
class contract : public testing::TestWithParam<std::unique_ptr<World> (*)()> {
protected:
    void SetUp() override
    {
        world_ = this->GetParam()();
        if (world_ == nullptr) {
            GTEST_SKIP() << "there is none here";
        }
        subject_ = &world_->subject();
    }

    std::unique_ptr<World> world_;
    decltype(&std::declval<World>().subject()) subject_ = nullptr;
};

} // namespace ucx_ib_dmabuf
