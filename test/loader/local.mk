# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS  += test/loader/loader.tap
EXTRA_DIST += test/loader/loader.tap
