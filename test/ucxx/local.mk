# SPDX-License-Identifier: BSD-3-Clause
LAB_TESTS          += test/ucxx/ucxx.lab
dist_check_SCRIPTS += test/ucxx/ucxx.lab
dist_noinst_DATA   += test/ucxx/talk.py
