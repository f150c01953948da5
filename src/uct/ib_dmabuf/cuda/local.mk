# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_cuda.la
libib_dmabuf_cuda_la_SOURCES = \
    src/uct/ib_dmabuf/cuda/bar1.cc \
    src/uct/ib_dmabuf/cuda/context.cc \
    src/uct/ib_dmabuf/cuda/context.h \
    src/uct/ib_dmabuf/cuda/copy.cc \
    src/uct/ib_dmabuf/cuda/driver.cc \
    src/uct/ib_dmabuf/cuda/driver.h \
    src/uct/ib_dmabuf/cuda/events.cc \
    src/uct/ib_dmabuf/cuda/export.cc \
    src/uct/ib_dmabuf/cuda/memory.cc \
    src/uct/ib_dmabuf/cuda/piece.cc \
    src/uct/ib_dmabuf/cuda/vendor.cc \
    src/uct/ib_dmabuf/cuda/vendor.h
libib_dmabuf_cuda_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
libib_dmabuf_cuda_la_LIBADD   = libib_dmabuf_ucm.la
