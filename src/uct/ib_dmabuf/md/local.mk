# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_md.la
libib_dmabuf_md_la_SOURCES = \
    src/uct/ib_dmabuf/md/changes.cc \
    src/uct/ib_dmabuf/md/changes.h \
    src/uct/ib_dmabuf/md/memh.cc \
    src/uct/ib_dmabuf/md/memh.h \
    src/uct/ib_dmabuf/md/memory_domain.cc \
    src/uct/ib_dmabuf/md/memory_domain.h \
    src/uct/ib_dmabuf/md/nic.cc \
    src/uct/ib_dmabuf/md/nic.h \
    src/uct/ib_dmabuf/md/plugin.cc \
    src/uct/ib_dmabuf/md/plugin.h \
    src/uct/ib_dmabuf/md/remote_keys.cc \
    src/uct/ib_dmabuf/md/settings.cc \
    src/uct/ib_dmabuf/md/settings.h \
    src/uct/ib_dmabuf/md/staging.cc \
    src/uct/ib_dmabuf/md/staging.h \
    src/uct/ib_dmabuf/md/staging_pool.cc \
    src/uct/ib_dmabuf/md/staging_pool.h \
    src/uct/ib_dmabuf/md/trial.cc \
    src/uct/ib_dmabuf/md/trial.h
libib_dmabuf_md_la_CXXFLAGS = $(AM_CXXFLAGS) -fvisibility=hidden
libib_dmabuf_md_la_LIBADD   = \
    libib_dmabuf_cache.la libib_dmabuf_verbs.la libib_dmabuf_report.la

# UCX's module loader and ours open libuct_ib_dmabuf.so.0. It is linked with
# nothing of UCX: which one is there is seen at run time.
module_LTLIBRARIES += libuct_ib_dmabuf.la
libuct_ib_dmabuf_la_SOURCES  = src/uct/ib_dmabuf/md/module.cc
libuct_ib_dmabuf_la_CXXFLAGS = $(AM_CXXFLAGS) -fvisibility=hidden
libuct_ib_dmabuf_la_LDFLAGS  = \
    $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-z,nodelete -no-undefined \
    -export-symbols-regex '^ucs_module_global_init$$'
libuct_ib_dmabuf_la_LIBADD   = libib_dmabuf_md.la libib_dmabuf_cuda.la -ldl
