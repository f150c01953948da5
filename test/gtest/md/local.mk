# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/gtest/md/test_md
LAB_TESTS      += test/gtest/md/md.lab
endif
EXTRA_DIST += test/gtest/md/md.lab
test_gtest_md_test_md_SOURCES = \
    test/gtest/md/memory_domain.h \
    test/gtest/md/test_md.cc
test_gtest_md_test_md_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_md_test_md_LDADD   = -lgtest_main $(GTEST_LIBS) -luct -lucs -ldl
