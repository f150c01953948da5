# SPDX-License-Identifier: BSD-3-Clause
LAB_TESTS          += test/nixl/nixl.lab
dist_check_SCRIPTS += test/nixl/nixl.lab
dist_noinst_DATA   += test/nixl/agents.py
