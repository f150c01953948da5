# SPDX-License-Identifier: BSD-3-Clause
# What tests share.
noinst_HEADERS += test/common/driver.h test/common/elsewhere.h \
                  test/common/fds.h test/common/first_byte.h test/common/gpu.h \
                  test/common/linked_ucx.h test/common/nic.h \
                  test/common/status.h \
                  test/common/ucx.h \
                  test/common/sim.h

# In Python, and in awk.
dist_noinst_DATA += test/common/figures.awk test/common/gpu.py

# The cache's world, simulated: tables.
fakes_sources = test/common/fakes.cc test/common/fakes.h

# For tests of memory pressure: these sources, and these flags for the linker.
alloc_faults_sources = \
    test/common/alloc_children.h \
    test/common/alloc_faults.cc \
    test/common/alloc_faults.h
alloc_faults_ldflags = \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc \
    -Wl,--wrap=posix_memalign,--wrap=strdup,--wrap=mmap

if HAVE_GTEST
check_PROGRAMS += test/common/test_alloc_faults
UNIT_TESTS     += test/common/test_alloc_faults
endif
test_common_test_alloc_faults_SOURCES = \
    $(alloc_faults_sources) \
    test/common/test_alloc_faults.cc
test_common_test_alloc_faults_LDFLAGS = \
    $(AM_LDFLAGS) $(alloc_faults_ldflags)
test_common_test_alloc_faults_LDADD   = -lgtest_main $(GTEST_LIBS) -ldl
