# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS          += $(test_ucx_gtest_tap)
