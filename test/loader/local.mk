# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS  += $(test_loader_tap)

check_PROGRAMS += test/loader/use_ucx
test_loader_use_ucx_SOURCES = test/loader/use_ucx.c
test_loader_use_ucx_LDFLAGS = $(AM_LDFLAGS) -rdynamic
test_loader_use_ucx_LDADD   = -ldl
