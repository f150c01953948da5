# SPDX-License-Identifier: BSD-3-Clause
LAB_TESTS          += test/nixl/nixl.lab
dist_check_SCRIPTS += test/nixl/nixl.lab
EXTRA_DIST         += test/nixl/agents.py
