// SPDX-License-Identifier: BSD-3-Clause
//
// The cache's two interfaces: the fakes of its tests fulfil the same contracts
// as a simulated or a real GPU.
#include "cuda_world.h"
#include "fake_worlds.h"

namespace ucx_ib_dmabuf {

INSTANTIATE_TEST_SUITE_P(fake, contract_exporter,
                         testing::Values(make<exporter_world, fake_gpu>));
INSTANTIATE_TEST_SUITE_P(gpu, contract_exporter,
                         testing::Values(cuda_world::make_if_any));
INSTANTIATE_TEST_SUITE_P(fake, contract_registrar,
                         testing::Values(make<registrar_world, fake_nic>));

} // namespace ucx_ib_dmabuf

namespace {

// Kinds of memory that the fakes lack.
TEST(cuda_vendor, takes_only_what_can_be_exported)
{
    gpu::use();
    const auto gpus = ucx_ib_dmabuf::find_cuda();
    const gpu::buffer variable(4096, gpu::memory::variable);
    ucx_ib_dmabuf::allocation found;
    CUdeviceptr managed = 0;
    void *host          = nullptr;
    int fd              = -1;

    GPU_CALL(cuMemAllocManaged, &managed, 4096, CU_MEM_ATTACH_GLOBAL);
    GPU_CALL(cuMemAllocHost, &host, 4096);
    EXPECT_EQ(UCS_OK, gpus->describe(variable.address(), &found));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              gpus->export_range(variable.address(), variable.size(), &fd));
    for (uintptr_t other : {uintptr_t{managed}, uintptr_t(host)}) {
        EXPECT_EQ(UCS_ERR_NO_ELEM, gpus->describe(other, &found));
    }
    GPU_CALL(cuMemFree, managed);
    GPU_CALL(cuMemFreeHost, host);
}

} // namespace
