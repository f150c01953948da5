# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES            += libib_dmabuf_rcache.la
libib_dmabuf_rcache_la_SOURCES  = $(src_uct_ib_dmabuf_rcache_sources)
libib_dmabuf_rcache_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
libib_dmabuf_rcache_la_LIBADD   = libib_dmabuf_gpu.la

# The same with its assertions, for the tests.
check_LTLIBRARIES                   += libib_dmabuf_rcache_debug.la
libib_dmabuf_rcache_debug_la_SOURCES  = $(src_uct_ib_dmabuf_rcache_sources)
libib_dmabuf_rcache_debug_la_CPPFLAGS = $(AM_CPPFLAGS) -DENABLE_ASSERT=1
libib_dmabuf_rcache_debug_la_LIBADD   = libib_dmabuf_gpu.la
