# SPDX-License-Identifier: BSD-3-Clause
LAB_TESTS          += $(test_nixl_lab)
