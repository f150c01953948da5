# SPDX-License-Identifier: BSD-3-Clause
lib_LTLIBRARIES += libucx_ib_dmabuf_preload.la
libucx_ib_dmabuf_preload_la_SOURCES = src/loader/preload.c \
                                      src/loader/ucx_copy.c \
                                      src/loader/ucx_copy.h
libucx_ib_dmabuf_preload_la_LDFLAGS = -module -avoid-version -shared \
                                      $(AM_LDFLAGS)
libucx_ib_dmabuf_preload_la_LIBADD  = -ldl
