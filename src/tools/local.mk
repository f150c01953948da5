# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += src/tools/ucx_dmabuf_info
dist_bashcompletion_DATA += src/tools/bash/ucx_dmabuf_info
dist_zshcompletion_DATA  += src/tools/zsh/_ucx_dmabuf_info
src_tools_ucx_dmabuf_info_SOURCES = $(src_tools_sources)
# What the plug-in finds out by the same code; like that it is linked with neither CUDA nor
# libibverbs, and has its C++ runtime in it.
src_tools_ucx_dmabuf_info_CPPFLAGS = $(AM_CPPFLAGS) -DINFO_VERSION='"$(PACKAGE_VERSION)"'
src_tools_ucx_dmabuf_info_CXXFLAGS = $(AM_CXXFLAGS) $(HARDENING_CFLAGS)
src_tools_ucx_dmabuf_info_LDFLAGS = $(AM_LDFLAGS) $(HARDENING_LDFLAGS) -Wl,--gc-sections \
    $(CXX_PROGRAM_RUNTIME) $(OLD_GLIBC_PROGRAM)
src_tools_ucx_dmabuf_info_LDADD = libib_dmabuf_cuda_copy.la libib_dmabuf_cuda.la libib_dmabuf_path.la libib_dmabuf_rcache.la libib_dmabuf_stats.la \
    libib_dmabuf_report.la $(OLD_GLIBC_LIBS) -ldl
EXTRA_src_tools_ucx_dmabuf_info_DEPENDENCIES = $(OLD_GLIBC_STUB)
if WITH_GLIBC
src_tools_ucx_dmabuf_info_SOURCES += $(src_glibc_sources)
src_tools_ucx_dmabuf_info_CFLAGS = $(AM_CFLAGS) # a name of its own for newer.o
endif
