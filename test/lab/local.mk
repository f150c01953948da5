# SPDX-License-Identifier: BSD-3-Clause
# Preloaded in the lab; "-rpath" makes libtool build it shared though it is
# never installed.
check_LTLIBRARIES += test/lab/librxe_dmabuf.la
test_lab_librxe_dmabuf_la_SOURCES = test/lab/rxe_dmabuf.c test/lab/rxe_dmabuf.h
test_lab_librxe_dmabuf_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version \
                                    -shared -rpath /nowhere
test_lab_librxe_dmabuf_la_LIBADD  = $(VERBS_LIBS) -ldl

dist_check_SCRIPTS += \
    test/lab/env \
    test/lab/figures.sh \
    test/lab/in-host \
    test/lab/init \
    test/lab/lab \
    test/lab/lab-rsh \
    test/lab/run-test

dist_noinst_DATA += \
    test/lab/kernel/config.fragment \
    test/lab/kernel/patches/0001-rxe-dmabuf.patch \
    test/lab/kernel/patches/0002-rxe-lastwqe.patch \
    test/lab/kernel/patches/0003-um-affinity.patch \
    test/lab/kernel/patches/0004-rxe-lie.patch

if HAVE_GTEST
check_PROGRAMS += test/lab/test_verbs_dmabuf
test_lab_test_verbs_dmabuf_SOURCES = \
    test/lab/rxe_dmabuf.h \
    test/lab/soft_roce.cc \
    test/lab/soft_roce.h \
    test/lab/test_verbs_dmabuf.cc
test_lab_test_verbs_dmabuf_LDADD = -lgtest_main $(GTEST_LIBS) $(VERBS_LIBS)
LAB_TESTS += test/lab/verbs.lab
endif

LAB_TAP_TESTS += test/lab/lab.tap
dist_noinst_DATA += test/lab/lab.tap test/lab/verbs.lab
