# SPDX-License-Identifier: BSD-3-Clause
# For tests of memory pressure: these sources, and these flags for the linker.
alloc_faults_sources = \
    test/gtest/common/alloc_children.h \
    test/gtest/common/alloc_faults.cc \
    test/gtest/common/alloc_faults.h
alloc_faults_ldflags = \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc \
    -Wl,--wrap=posix_memalign,--wrap=strdup,--wrap=mmap

if HAVE_GTEST
check_PROGRAMS += test/gtest/common/test_alloc_faults
UNIT_TESTS     += test/gtest/common/test_alloc_faults
endif
test_gtest_common_test_alloc_faults_SOURCES = \
    $(alloc_faults_sources) \
    test/gtest/common/test_alloc_faults.cc
test_gtest_common_test_alloc_faults_LDFLAGS = \
    $(AM_LDFLAGS) $(alloc_faults_ldflags)
test_gtest_common_test_alloc_faults_LDADD   = -lgtest_main $(GTEST_LIBS) -ldl
