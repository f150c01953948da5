# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/prove/test_proof
UNIT_TESTS     += test/gtest/prove/test_proof
test_gtest_prove_test_proof_SOURCES = $(alloc_faults_sources) $(test_gtest_prove_sources)
test_gtest_prove_test_proof_LDFLAGS = $(AM_LDFLAGS) $(alloc_faults_ldflags)
test_gtest_prove_test_proof_LDADD = libib_dmabuf_prove.la \
    libib_dmabuf_verbs.la libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -ldl
