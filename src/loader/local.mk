# SPDX-License-Identifier: BSD-3-Clause
lib_LTLIBRARIES += libucx_ib_dmabuf_preload.la
libucx_ib_dmabuf_preload_la_SOURCES = $(src_loader_sources)
# It comes before all others: a name of its own would stand for theirs.
libucx_ib_dmabuf_preload_la_CFLAGS  = $(AM_CFLAGS) $(HARDENING_CFLAGS) \
                                      -fvisibility=hidden
libucx_ib_dmabuf_preload_la_LDFLAGS = -module -avoid-version -shared \
                                      $(AM_LDFLAGS) $(HARDENING_LDFLAGS) $(OLD_GLIBC_LDFLAGS)
libucx_ib_dmabuf_preload_la_LIBADD  = $(OLD_GLIBC_DL) -ldl
EXTRA_libucx_ib_dmabuf_preload_la_DEPENDENCIES = $(OLD_GLIBC_STUB)
