# SPDX-License-Identifier: BSD-3-Clause
LAB_TESTS          += $(test_ucxx_lab)
