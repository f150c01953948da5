# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS          += test/ucx_gtest/compare.tap
dist_check_SCRIPTS += test/ucx_gtest/run
dist_noinst_DATA   += test/ucx_gtest/compare.awk test/ucx_gtest/filters \
                      test/ucx_gtest/reasons test/ucx_gtest/results.awk
