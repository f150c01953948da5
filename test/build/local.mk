# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS  += test/build/configure.tap
EXTRA_DIST += test/build/configure.tap
