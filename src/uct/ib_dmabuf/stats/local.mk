# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_stats.la
libib_dmabuf_stats_la_SOURCES = $(src_uct_ib_dmabuf_stats_sources)
libib_dmabuf_stats_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
