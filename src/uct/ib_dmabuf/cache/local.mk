# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES            += libib_dmabuf_cache.la
libib_dmabuf_cache_la_SOURCES  = $(src_uct_ib_dmabuf_cache_sources)
libib_dmabuf_cache_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)

# The same with its assertions, for the tests.
check_LTLIBRARIES                   += libib_dmabuf_cache_debug.la
libib_dmabuf_cache_debug_la_SOURCES  = $(src_uct_ib_dmabuf_cache_sources)
libib_dmabuf_cache_debug_la_CPPFLAGS = $(AM_CPPFLAGS) -DENABLE_ASSERT=1
