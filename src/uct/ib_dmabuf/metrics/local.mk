# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_metrics.la
libib_dmabuf_metrics_la_SOURCES = $(src_uct_ib_dmabuf_metrics_sources)
libib_dmabuf_metrics_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
