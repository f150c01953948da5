# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_host.la
libib_dmabuf_host_la_SOURCES = $(src_uct_ib_dmabuf_host_sources)
libib_dmabuf_host_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
