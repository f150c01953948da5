# SPDX-License-Identifier: BSD-3-Clause
# Most of them in processes of their own, as settings are read once, or as others lack room.
md_tests = \
    test/gtest/md/test_counts \
    test/gtest/md/test_domain \
    test/gtest/md/test_extents \
    test/gtest/md/test_prefetch \
    test/gtest/md/test_pressure \
    test/gtest/md/test_stats \
    test/gtest/md/test_vendor
check_PROGRAMS += $(md_tests)
UNIT_TESTS     += $(md_tests)

# The plug-in over a fake uct_ib, which needs no device. The program is what has uct_ib
# and libibverbs, and is looked at for them.
fake_ib_sources = src/uct/ib_dmabuf/md/module.cc $(alloc_faults_sources) test/gtest/md/fake_ib.cc
fake_ib_ldflags = $(AM_LDFLAGS) $(UCX_LDFLAGS) $(alloc_faults_ldflags) -export-dynamic
fake_ib_ucx     = -lgtest_main $(GTEST_LIBS) -luct -lucs -lucm -ldl
fake_ib_libs    = libib_dmabuf_cuda_copy.la libib_dmabuf_cuda.la \
    libib_dmabuf_md.la $(fake_ib_ucx)

# Without the vendor that the plug-in has, and so without module.cc.
test_gtest_md_test_vendor_SOURCES = $(fakes_sources) $(alloc_faults_sources) \
    test/gtest/md/fake_ib.cc test/gtest/md/test_vendor.cc
test_gtest_md_test_vendor_LDFLAGS = $(fake_ib_ldflags)
test_gtest_md_test_vendor_LDADD   = libib_dmabuf_md.la $(fake_ib_ucx)

test_gtest_md_test_domain_SOURCES = $(fake_ib_sources) \
    test/gtest/md/test_atomics.cc \
    test/gtest/md/test_calls.cc \
    test/gtest/md/test_domain.cc \
    test/gtest/md/test_estimates.cc \
    test/gtest/md/test_failures.cc \
    test/gtest/md/test_messages.cc \
    test/gtest/md/test_steps.cc
test_gtest_md_test_domain_LDFLAGS   = $(fake_ib_ldflags)
test_gtest_md_test_domain_LDADD     = $(fake_ib_libs)
test_gtest_md_test_extents_SOURCES  = $(fake_ib_sources) test/gtest/md/test_extents.cc
test_gtest_md_test_extents_LDFLAGS  = $(fake_ib_ldflags)
test_gtest_md_test_extents_LDADD    = $(fake_ib_libs)
test_gtest_md_test_prefetch_SOURCES = $(fake_ib_sources) test/gtest/md/test_prefetch.cc
test_gtest_md_test_prefetch_LDFLAGS = $(fake_ib_ldflags)
test_gtest_md_test_prefetch_LDADD   = $(fake_ib_libs)
test_gtest_md_test_stats_SOURCES    = $(fake_ib_sources) test/gtest/md/test_stats.cc
test_gtest_md_test_stats_LDFLAGS    = $(fake_ib_ldflags)
test_gtest_md_test_stats_LDADD      = $(fake_ib_libs)
test_gtest_md_test_counts_SOURCES   = $(fake_ib_sources) test/gtest/md/test_counts.cc
test_gtest_md_test_counts_LDFLAGS   = $(fake_ib_ldflags)
test_gtest_md_test_counts_LDADD     = $(fake_ib_libs)
test_gtest_md_test_pressure_SOURCES = $(fake_ib_sources) test/gtest/md/test_pressure.cc
test_gtest_md_test_pressure_LDFLAGS = $(fake_ib_ldflags)
test_gtest_md_test_pressure_LDADD   = $(fake_ib_libs)
