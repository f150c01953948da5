# SPDX-License-Identifier: BSD-3-Clause
# configure --with-glibc=VERSION: the libraries are to run on that glibc, too.
dist_noinst_SCRIPTS += src/glibc/make-stub
if WITH_GLIBC
noinst_LTLIBRARIES += libib_dmabuf_glibc.la
libib_dmabuf_glibc_la_SOURCES = src/glibc/newer.c

glibc_stub = $(abs_builddir)/src/glibc/stub
OLD_GLIBC_LDFLAGS = -L$(glibc_stub)
OLD_GLIBC_STUB    = $(glibc_stub)/libc.so
OLD_GLIBC_NEWER   = libib_dmabuf_glibc.la

$(OLD_GLIBC_STUB): $(top_srcdir)/src/glibc/make-stub $(top_builddir)/config.status
	$(AM_V_GEN)rm -rf $(glibc_stub) && \
	CC='$(CC)' $(top_srcdir)/src/glibc/make-stub $(GLIBC_VERSION) $(glibc_stub)

CLEANFILES += src/glibc/stub/*
else
dist_noinst_DATA += src/glibc/newer.c
endif
