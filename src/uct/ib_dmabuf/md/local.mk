# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_md.la
libib_dmabuf_md_la_SOURCES = \
    src/uct/ib_dmabuf/md/atomics.cc \
    src/uct/ib_dmabuf/md/extents.cc \
    src/uct/ib_dmabuf/md/memory_domain.cc \
    src/uct/ib_dmabuf/md/process_state.cc \
    src/uct/ib_dmabuf/md/remote_keys.cc \
    src/uct/ib_dmabuf/md/settings.cc
libib_dmabuf_md_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
libib_dmabuf_md_la_LIBADD   = \
    libib_dmabuf_rcache.la libib_dmabuf_path.la \
    libib_dmabuf_stats.la libib_dmabuf_report.la

# UCX's module loader and ours open libuct_ib_dmabuf.so.0; UCX's looks for the
# suffix that its own libucs has, so all three names are installed. It is linked with
# nothing of UCX: which one is there is seen at run time. As C, so that libtool
# does not add the compiler's libstdc++ to the one that CXX_RUNTIME names.
module_LTLIBRARIES += libuct_ib_dmabuf.la
libuct_ib_dmabuf_la_SOURCES  = src/uct/ib_dmabuf/md/module.cc
libuct_ib_dmabuf_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
libuct_ib_dmabuf_la_LDFLAGS  = \
    $(AM_LDFLAGS) $(HARDENING_LDFLAGS) $(OLD_GLIBC_LDFLAGS) -version-info 0:0:0 -no-undefined \
    -Wl,-z,nodelete -Wl,--gc-sections \
    -Wl,--version-script=$(top_srcdir)/src/uct/ib_dmabuf/md/module.map
libuct_ib_dmabuf_la_LIBADD   = libib_dmabuf_md.la libib_dmabuf_cuda_copy.la \
    libib_dmabuf_cuda.la $(OLD_GLIBC_NEWER) $(CXX_RUNTIME) $(OLD_GLIBC_LIBS) -ldl
libuct_ib_dmabuf_la_LINK     = \
    $(LIBTOOL) $(AM_V_lt) --tag=CC $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) \
    --mode=link $(CC) $(AM_CFLAGS) $(CFLAGS) $(libuct_ib_dmabuf_la_LDFLAGS) \
    $(LDFLAGS) -o $@
EXTRA_libuct_ib_dmabuf_la_DEPENDENCIES = src/uct/ib_dmabuf/md/module.map \
    $(OLD_GLIBC_STUB)
