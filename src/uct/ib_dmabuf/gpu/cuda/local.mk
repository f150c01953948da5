# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_cuda.la
libib_dmabuf_cuda_la_SOURCES = $(src_uct_ib_dmabuf_gpu_cuda_sources)
libib_dmabuf_cuda_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
libib_dmabuf_cuda_la_LIBADD   = libib_dmabuf_ucm.la
