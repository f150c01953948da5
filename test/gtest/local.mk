# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
include test/gtest/rcache/local.mk
if HAVE_UCX
include test/gtest/contract/local.mk
include test/gtest/cuda_copy/local.mk
include test/gtest/gpu/local.mk
include test/gtest/ucx/local.mk
include test/gtest/md/local.mk
include test/gtest/ucm/local.mk
endif
include test/gtest/stats/local.mk
include test/gtest/path/local.mk
endif
