# SPDX-License-Identifier: BSD-3-Clause
# What gpu/exporter.h promises, over everything that keeps it.
check_PROGRAMS += test/gtest/contract/test_contract \
                  test/gtest/contract/test_soft_roce
UNIT_TESTS     += test/gtest/contract/test_contract
LAB_TESTS      += $(test_gtest_contract_lab)
TAP_TESTS      += $(test_gtest_contract_tap)

test_gtest_contract_test_contract_SOURCES = \
    $(fakes_sources) \
    test/gtest/contract/test_contract.cc
test_gtest_contract_test_contract_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_contract_test_contract_LDADD   = libib_dmabuf_cuda.la \
    libib_dmabuf_gpu.la libib_dmabuf_stats.la \
    libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -lucm -lucs -ldl

test_gtest_contract_test_soft_roce_SOURCES = \
    test/gtest/contract/test_soft_roce.cc \
    test/lab/soft_roce.cc
test_gtest_contract_test_soft_roce_CPPFLAGS = \
    $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_gtest_contract_test_soft_roce_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_contract_test_soft_roce_LDADD   = \
    libib_dmabuf_cuda.la libib_dmabuf_md.la -lgtest_main $(GTEST_LIBS) \
    -luct -lucm -lucs $(VERBS_LIBS) -ldl
