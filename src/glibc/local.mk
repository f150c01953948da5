# SPDX-License-Identifier: BSD-3-Clause
# configure --with-glibc=VERSION: what is installed is to run on that glibc, too.
if WITH_GLIBC
noinst_LTLIBRARIES += libib_dmabuf_glibc.la
libib_dmabuf_glibc_la_SOURCES = src/glibc/newer.c

glibc_stub = $(abs_builddir)/src/glibc/stub
OLD_GLIBC_LDFLAGS = -L$(glibc_stub)
OLD_GLIBC_STUB    = $(glibc_stub)/libc.so
OLD_GLIBC_NEWER   = libib_dmabuf_glibc.la
# A program has newer.c and start.c among its sources: in an archive, which comes before
# libstdc++, the linker would not look for what that wants. glibc's data stays where it is: the
# stub has none that could be copied.
AM_CXXFLAGS += -fPIC
OLD_GLIBC_PROGRAM = $(OLD_GLIBC_LDFLAGS) -Wl,--wrap=__libc_start_main

$(OLD_GLIBC_STUB): $(top_srcdir)/src/glibc/make-stub $(top_builddir)/config.status
	$(AM_V_GEN)rm -rf $(glibc_stub) && \
	CC='$(CC)' $(top_srcdir)/src/glibc/make-stub $(GLIBC_VERSION) $(glibc_stub)

CLEANFILES += src/glibc/stub/*
endif
