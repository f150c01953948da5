# SPDX-License-Identifier: BSD-3-Clause
# Preloaded in the lab; "-rpath" makes libtool build it shared though it is
# never installed.
check_LTLIBRARIES += test/lab/librxe_dmabuf.la
test_lab_librxe_dmabuf_la_SOURCES = test/lab/rxe_dmabuf.c test/lab/rxe_speed.c
test_lab_librxe_dmabuf_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version \
                                    -shared -rpath /nowhere
test_lab_librxe_dmabuf_la_LIBADD  = $(VERBS_LIBS) -ldl

if HAVE_GTEST
check_PROGRAMS += test/lab/test_verbs_dmabuf
test_lab_test_verbs_dmabuf_SOURCES = test/lab/test_verbs_dmabuf.cc test/mpi/buffer.cc
test_lab_test_verbs_dmabuf_LDADD = libib_dmabuf_path.la libib_dmabuf_gpu.la libib_dmabuf_stats.la \
    libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) $(VERBS_LIBS) -ldl
LAB_TESTS += $(test_lab_lab)
endif

LAB_TAP_TESTS += $(test_lab_tap)
