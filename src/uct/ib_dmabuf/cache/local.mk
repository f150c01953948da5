# SPDX-License-Identifier: BSD-3-Clause
cache_sources = \
    src/uct/ib_dmabuf/cache/address_map.cc \
    src/uct/ib_dmabuf/cache/address_map.h \
    src/uct/ib_dmabuf/cache/attach.cc \
    src/uct/ib_dmabuf/cache/budget.cc \
    src/uct/ib_dmabuf/cache/budget.h \
    src/uct/ib_dmabuf/cache/bunch.cc \
    src/uct/ib_dmabuf/cache/bunch.h \
    src/uct/ib_dmabuf/cache/cache.cc \
    src/uct/ib_dmabuf/cache/cache.h \
    src/uct/ib_dmabuf/cache/counters.h \
    src/uct/ib_dmabuf/cache/engine.h \
    src/uct/ib_dmabuf/cache/entry.cc \
    src/uct/ib_dmabuf/cache/entry.h \
    src/uct/ib_dmabuf/cache/evict.cc \
    src/uct/ib_dmabuf/cache/failures.h \
    src/uct/ib_dmabuf/cache/fence.cc \
    src/uct/ib_dmabuf/cache/fence.h \
    src/uct/ib_dmabuf/cache/fork.cc \
    src/uct/ib_dmabuf/cache/get.cc \
    src/uct/ib_dmabuf/cache/hit.h \
    src/uct/ib_dmabuf/cache/leave.cc \
    src/uct/ib_dmabuf/cache/limbo.cc \
    src/uct/ib_dmabuf/cache/limbo.h \
    src/uct/ib_dmabuf/cache/mapping.h \
    src/uct/ib_dmabuf/cache/plan.cc \
    src/uct/ib_dmabuf/cache/plan.h \
    src/uct/ib_dmabuf/cache/provider.h \
    src/uct/ib_dmabuf/cache/refusals.h \
    src/uct/ib_dmabuf/cache/register.cc \
    src/uct/ib_dmabuf/cache/release_log.h \
    src/uct/ib_dmabuf/cache/span.h \
    src/uct/ib_dmabuf/cache/steps.h \
    src/uct/ib_dmabuf/cache/survey.h \
    src/uct/ib_dmabuf/cache/threads.cc \
    src/uct/ib_dmabuf/cache/threads.h

noinst_LTLIBRARIES            += libib_dmabuf_cache.la
libib_dmabuf_cache_la_SOURCES  = $(cache_sources)

# The same with its assertions, for the tests.
check_LTLIBRARIES                   += libib_dmabuf_cache_debug.la
libib_dmabuf_cache_debug_la_SOURCES  = $(cache_sources)
libib_dmabuf_cache_debug_la_CPPFLAGS = $(AM_CPPFLAGS) -DENABLE_ASSERT=1
