# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_ucx.la
libib_dmabuf_ucx_la_SOURCES = $(src_uct_ib_dmabuf_ucx_sources)
libib_dmabuf_ucx_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
