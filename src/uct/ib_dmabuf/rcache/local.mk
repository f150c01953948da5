# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES            += libib_dmabuf_rcache.la
libib_dmabuf_rcache_la_SOURCES  = $(src_uct_ib_dmabuf_rcache_sources)
libib_dmabuf_rcache_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
libib_dmabuf_rcache_la_LIBADD   = libib_dmabuf_gpu.la
