# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_verbs.la
libib_dmabuf_verbs_la_SOURCES = $(src_uct_ib_dmabuf_verbs_sources)
libib_dmabuf_verbs_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
