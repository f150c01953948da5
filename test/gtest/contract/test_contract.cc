// SPDX-License-Identifier: BSD-3-Clause
//
// The cache's two interfaces: the fakes that its tests use keep the same
// contracts as the GPU, simulated or real.
#include "cuda_world.h"
#include "exporter.h"
#include "fake_worlds.h"
#include "registrar.h"

INSTANTIATE_TYPED_TEST_SUITE_P(fake, contract_exporter, fake_gpu);
INSTANTIATE_TYPED_TEST_SUITE_P(gpu, contract_exporter, cuda_world);
INSTANTIATE_TYPED_TEST_SUITE_P(fake, contract_registrar, fake_nic);
