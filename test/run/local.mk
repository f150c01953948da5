# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS  += test/run/completion.tap test/run/run.tap
