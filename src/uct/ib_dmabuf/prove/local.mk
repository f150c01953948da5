# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_prove.la
libib_dmabuf_prove_la_SOURCES = $(src_uct_ib_dmabuf_prove_sources)
libib_dmabuf_prove_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
