# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_cuda_copy.la
libib_dmabuf_cuda_copy_la_SOURCES = src/uct/ib_dmabuf/cuda_copy/cuda_copy.cc
libib_dmabuf_cuda_copy_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
