# SPDX-License-Identifier: BSD-3-Clause
# What cache/provider.h promises, over everything that keeps it.
if HAVE_GTEST
check_PROGRAMS += test/gtest/contract/test_contract \
                  test/gtest/contract/test_soft_roce
UNIT_TESTS     += test/gtest/contract/test_contract
LAB_TESTS      += test/gtest/contract/contract.lab
TAP_TESTS      += test/gtest/contract/gpu.tap
endif
dist_noinst_DATA += test/gtest/contract/contract.lab test/gtest/contract/gpu.tap

contract_sources = \
    test/gtest/contract/cuda_world.h \
    test/gtest/contract/exporter.h \
    test/gtest/contract/registrar.h

test_gtest_contract_test_contract_SOURCES = $(contract_sources) \
    $(fakes_sources) \
    test/gtest/contract/fake_worlds.h \
    test/gtest/contract/test_contract.cc
test_gtest_contract_test_contract_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_contract_test_contract_LDADD   = libib_dmabuf_cuda.la \
    libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -lucm -lucs -ldl

udmabuf_vendor_sources = \
    test/gtest/contract/udmabuf_vendor.cc \
    test/gtest/contract/udmabuf_vendor.h
test_gtest_contract_test_soft_roce_SOURCES = $(contract_sources) \
    $(udmabuf_vendor_sources) \
    test/gtest/md/memory_domain.h \
    test/gtest/contract/test_soft_roce.cc \
    test/gtest/contract/udmabuf_world.h \
    test/lab/soft_roce.cc \
    test/lab/soft_roce.h
test_gtest_contract_test_soft_roce_CPPFLAGS = \
    $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_gtest_contract_test_soft_roce_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_contract_test_soft_roce_LDADD   = \
    libib_dmabuf_cuda.la libib_dmabuf_md.la -lgtest_main $(GTEST_LIBS) \
    -luct -lucm -lucs $(VERBS_LIBS) -ldl
