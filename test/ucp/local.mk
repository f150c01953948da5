# SPDX-License-Identifier: BSD-3-Clause
# On UCX's public API.
check_PROGRAMS += test/ucp/dmabuf_fd
LAB_TESTS      += test/ucp/dmabuf_fd.lab
dist_check_SCRIPTS += test/ucp/dmabuf_fd.lab

test_ucp_dmabuf_fd_SOURCES = \
    test/lab/soft_roce.cc \
    test/lab/soft_roce.h \
    test/ucp/dmabuf_fd.cc
test_ucp_dmabuf_fd_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_ucp_dmabuf_fd_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_ucp_dmabuf_fd_LDADD    = -luct -lucs $(VERBS_LIBS) -ldl
