# SPDX-License-Identifier: BSD-3-Clause
cache_sources = \
    src/uct/ib_dmabuf/cache/budget.h \
    src/uct/ib_dmabuf/cache/cache.cc \
    src/uct/ib_dmabuf/cache/cache.h \
    src/uct/ib_dmabuf/cache/cached_region.h \
    src/uct/ib_dmabuf/cache/defer.cc \
    src/uct/ib_dmabuf/cache/evict.cc \
    src/uct/ib_dmabuf/cache/exports.cc \
    src/uct/ib_dmabuf/cache/exports.h \
    src/uct/ib_dmabuf/cache/failures.h \
    src/uct/ib_dmabuf/cache/get.cc \
    src/uct/ib_dmabuf/cache/memory_run.cc \
    src/uct/ib_dmabuf/cache/memory_run.h \
    src/uct/ib_dmabuf/cache/pending.h \
    src/uct/ib_dmabuf/cache/persist.h \
    src/uct/ib_dmabuf/cache/provider.h \
    src/uct/ib_dmabuf/cache/region_index.h \
    src/uct/ib_dmabuf/cache/register.cc \
    src/uct/ib_dmabuf/cache/release_log.h \
    src/uct/ib_dmabuf/cache/retire.cc \
    src/uct/ib_dmabuf/cache/span.h

noinst_LTLIBRARIES            += libib_dmabuf_cache.la
libib_dmabuf_cache_la_SOURCES  = $(cache_sources)
libib_dmabuf_cache_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)

# The same with its assertions, for the tests.
check_LTLIBRARIES                   += libib_dmabuf_cache_debug.la
libib_dmabuf_cache_debug_la_SOURCES  = $(cache_sources)
libib_dmabuf_cache_debug_la_CPPFLAGS = $(AM_CPPFLAGS) -DENABLE_ASSERT=1
