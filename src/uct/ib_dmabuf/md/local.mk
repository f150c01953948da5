# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_md.la
libib_dmabuf_md_la_SOURCES = \
    src/uct/ib_dmabuf/md/caller.cc \
    src/uct/ib_dmabuf/md/caller.h \
    src/uct/ib_dmabuf/md/changes.cc \
    src/uct/ib_dmabuf/md/changes.h \
    src/uct/ib_dmabuf/md/decorate.h \
    src/uct/ib_dmabuf/md/memh.cc \
    src/uct/ib_dmabuf/md/memh.h \
    src/uct/ib_dmabuf/md/nic.cc \
    src/uct/ib_dmabuf/md/nic.h \
    src/uct/ib_dmabuf/md/plugin.cc \
    src/uct/ib_dmabuf/md/plugin.h \
    src/uct/ib_dmabuf/md/settings.cc \
    src/uct/ib_dmabuf/md/settings.h \
    src/uct/ib_dmabuf/md/staging.cc \
    src/uct/ib_dmabuf/md/staging.h \
    src/uct/ib_dmabuf/md/staging_pool.cc \
    src/uct/ib_dmabuf/md/staging_pool.h \
    src/uct/ib_dmabuf/md/ucp_1_13.cc \
    src/uct/ib_dmabuf/md/ucx_1_13.h \
    src/uct/ib_dmabuf/md/uct_1_13.cc
# UCX's sources come first: their config.h is meant where a header of theirs
# includes it.
md_cppflags = $(UCX_SRC_CPPFLAGS) $(UCX_CPPFLAGS) $(CUDA_CPPFLAGS)
libib_dmabuf_md_la_CPPFLAGS = $(UCX_SRC_CPPFLAGS) $(UCX_CPPFLAGS)
libib_dmabuf_md_la_CXXFLAGS = $(AM_CXXFLAGS) -fvisibility=hidden
libib_dmabuf_md_la_LIBADD   = \
    libib_dmabuf_cache.la libib_dmabuf_verbs.la libib_dmabuf_report.la

# UCX's module loader and ours open libuct_ib_dmabuf.so.0.
module_LTLIBRARIES += libuct_ib_dmabuf.la
libuct_ib_dmabuf_la_SOURCES  = src/uct/ib_dmabuf/md/module.cc
libuct_ib_dmabuf_la_CPPFLAGS = $(md_cppflags)
libuct_ib_dmabuf_la_CXXFLAGS = $(AM_CXXFLAGS) -fvisibility=hidden
# libuct_ib is opened RTLD_LOCAL by UCX: naming it as needed makes its symbols
# visible to the plug-in.
libuct_ib_dmabuf_la_LDFLAGS = \
    $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-z,nodelete \
    -export-symbols-regex '^ucs_module_global_init$$' \
    $(UCX_LDFLAGS) -L$(UCX_PREFIX)/lib/ucx
libuct_ib_dmabuf_la_LIBADD = \
    libib_dmabuf_md.la libib_dmabuf_cuda.la \
    -luct_ib -luct -lucs -lucm $(VERBS_LIBS) -ldl
