# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_cuda_copy.la
libib_dmabuf_cuda_copy_la_SOURCES = $(src_uct_ib_dmabuf_cuda_copy_sources)
libib_dmabuf_cuda_copy_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
