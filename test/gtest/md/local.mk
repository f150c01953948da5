# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/gtest/md/test_md test/gtest/md/test_staging
LAB_TESTS      += test/gtest/md/md.lab test/gtest/md/staging.lab
endif
EXTRA_DIST += test/gtest/md/md.lab test/gtest/md/staging.lab
test_gtest_md_test_md_SOURCES = \
    test/gtest/md/memory_domain.h \
    test/gtest/md/test_md.cc
test_gtest_md_test_md_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_md_test_md_LDADD   = -lgtest_main $(GTEST_LIBS) -luct -lucs -ldl

test_gtest_md_test_staging_SOURCES = \
    src/uct/ib_dmabuf/md/staging.cc \
    test/gtest/md/test_staging.cc
test_gtest_md_test_staging_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_md_test_staging_LDADD   = \
    libib_dmabuf_cuda.la libib_dmabuf_verbs.la -lgtest_main $(GTEST_LIBS) \
    -lucs $(VERBS_LIBS) -ldl
