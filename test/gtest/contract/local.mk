# SPDX-License-Identifier: BSD-3-Clause
# What gpu/exporter.h promises, over everything that keeps it.
check_PROGRAMS += test/gtest/contract/test_contract
UNIT_TESTS     += test/gtest/contract/test_contract
TAP_TESTS      += $(test_gtest_contract_tap)

test_gtest_contract_test_contract_SOURCES = \
    $(fakes_sources) \
    test/common/page_size.cc \
    test/gtest/contract/test_contract.cc
test_gtest_contract_test_contract_LDADD = $(UCX_LDFLAGS) libib_dmabuf_cuda.la \
    libib_dmabuf_gpu.la libib_dmabuf_stats.la \
    libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -lucm -lucs -ldl
