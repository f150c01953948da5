# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += src/tools/ucx_dmabuf_info
dist_bashcompletion_DATA += src/tools/bash/ucx_dmabuf_info
dist_zshcompletion_DATA  += src/tools/zsh/_ucx_dmabuf_info
src_tools_ucx_dmabuf_info_SOURCES = \
    src/tools/copies.cc \
    src/tools/devices.cc \
    src/tools/devices.h \
    src/tools/environment.cc \
    src/tools/findings.h \
    src/tools/gpus.cc \
    src/tools/json.cc \
    src/tools/look.h \
    src/tools/machine.cc \
    src/tools/main.cc \
    src/tools/nics.cc \
    src/tools/pairs.cc \
    src/tools/prove.cc \
    src/tools/table.cc \
    src/tools/text.cc \
    src/tools/tree.cc \
    src/tools/tree.h \
    src/tools/ucx_probe.cc \
    src/tools/ucx_probe.h \
    src/tools/watch.cc \
    src/tools/watch.h
# What the plug-in finds out by the same code; like that it is linked with neither CUDA nor
# libibverbs, and has its C++ runtime in it.
src_tools_ucx_dmabuf_info_CXXFLAGS = $(AM_CXXFLAGS) $(HARDENING_CFLAGS)
src_tools_ucx_dmabuf_info_LDFLAGS = $(AM_LDFLAGS) $(HARDENING_LDFLAGS) -Wl,--gc-sections \
    $(CXX_PROGRAM_RUNTIME) $(OLD_GLIBC_PROGRAM_LDFLAGS)
src_tools_ucx_dmabuf_info_LDADD = libib_dmabuf_cuda.la libib_dmabuf_prove.la \
    libib_dmabuf_verbs.la libib_dmabuf_cache.la libib_dmabuf_metrics.la \
    libib_dmabuf_report.la $(OLD_GLIBC_LIBS) -ldl
EXTRA_src_tools_ucx_dmabuf_info_DEPENDENCIES = $(OLD_GLIBC_STUB)
nodist_src_tools_ucx_dmabuf_info_SOURCES = src/tools/version.cc
if WITH_GLIBC
src_tools_ucx_dmabuf_info_SOURCES += src/glibc/newer.c src/glibc/start.c
src_tools_ucx_dmabuf_info_CFLAGS = $(AM_CFLAGS) # a name of its own for newer.o
endif
CLEANFILES += src/tools/version.cc
src/tools/version.cc: Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && printf '%s\n' \
	    '// SPDX-License-Identifier: BSD-3-Clause' \
	    '#include <tools/look.h>' '' \
	    'const char ucx_ib_dmabuf::info::version[] = "$(PACKAGE_VERSION)";' >$@
