# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS  += test/build/linked.tap
if HAVE_CUDA
TAP_TESTS  += test/build/cuda_api.tap
endif
if HAVE_UCX
TAP_TESTS  += test/build/abi.tap test/build/configure.tap
endif
