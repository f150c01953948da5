# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_ucm.la
libib_dmabuf_ucm_la_SOURCES = $(src_ucm_sources)
libib_dmabuf_ucm_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
