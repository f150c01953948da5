# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_path.la
libib_dmabuf_path_la_SOURCES = $(src_uct_ib_dmabuf_path_sources)
libib_dmabuf_path_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
