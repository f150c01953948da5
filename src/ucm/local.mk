# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_ucm.la
libib_dmabuf_ucm_la_SOURCES = \
    src/ucm/calls.cc \
    src/ucm/calls.h \
    src/ucm/code_arena.cc \
    src/ucm/code_arena.h \
    src/ucm/code_patch.cc \
    src/ucm/code_patch.h \
    src/ucm/code_write.h \
    src/ucm/code_write_x86_64.cc \
    src/ucm/cuda_api.h \
    src/ucm/cuda_events.cc \
    src/ucm/cuda_events.h \
    src/ucm/dispatch.cc \
    src/ucm/dispatch.h \
    src/ucm/existing.cc \
    src/ucm/hook.h \
    src/ucm/libraries.cc \
    src/ucm/libraries.h \
    src/ucm/maps.h \
    src/ucm/prologue_x86_64.cc \
    src/ucm/prologue_x86_64.h \
    src/ucm/range_table.cc \
    src/ucm/range_table.h \
    src/ucm/release.cc \
    src/ucm/release.h \
    src/ucm/watched.cc \
    src/ucm/watched.h
libib_dmabuf_ucm_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
