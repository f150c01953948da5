# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS += $(test_arm64_tap)
