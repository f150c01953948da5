// SPDX-License-Identifier: BSD-3-Clause
//
// How far segments that lie side by side are one run, on the simulated GPU.
#include "../../../src/uct/ib_dmabuf/cache/memory_run.h"
#include "../../../src/uct/ib_dmabuf/cuda/vendor.h"
#include <common/gpu.h>
#include <common/linked_ucx.h>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

const bool linked = (test::use_linked_ucx(), true);

// Where RANGE_START_ADDR is the segment's, against NVIDIA's documentation, no
// segment is known to be of another one's reservation.
bool reservations_are_told()
{
    const char *range = getenv("CUDA_SIM_RANGE");
    return (range == nullptr) || (std::string_view(range) != "segment");
}

// The driver exports no range that goes beyond a reservation, and some
// allocators reserve for each allocation anew.
TEST(test_runs, a_run_ends_with_its_reservation)
{
    std::vector<std::unique_ptr<gpu::segments>> all;
    std::map<uintptr_t, const gpu::segments *> by_address;
    size_t neighbours = 0;

    gpu::use();
    ASSERT_NE(nullptr, driver::get());
    cuda_vendor cuda(*driver::get());
    for (int i = 0; i < 4; ++i) {
        all.push_back(std::make_unique<gpu::segments>(1 + i % 2));
        by_address[all.back()->address()] = all.back().get();
    }
    for (const auto &[address, memory] : by_address) {
        memory_run run;
        neighbours += by_address.count(address + memory->size());
        ASSERT_EQ(UCS_OK, run.describe(cuda, make_span(address, 100)));
        run.extend(cuda, {0, UINTPTR_MAX});
        const size_t size =
            reservations_are_told() ? memory->size() : memory->step();
        EXPECT_EQ(make_span(address, size), run.range);
    }
    EXPECT_GT(neighbours, 0u) << "nothing lies side by side";
}

} // namespace
