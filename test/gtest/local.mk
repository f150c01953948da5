# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
include test/gtest/cache/local.mk
if HAVE_UCX
include test/gtest/contract/local.mk
include test/gtest/copy/local.mk
include test/gtest/cuda/local.mk
include test/gtest/host/local.mk
include test/gtest/md/local.mk
include test/gtest/ucm/local.mk
endif
include test/gtest/metrics/local.mk
include test/gtest/prove/local.mk
include test/gtest/verbs/local.mk
endif
