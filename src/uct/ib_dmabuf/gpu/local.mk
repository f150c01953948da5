# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_gpu.la
libib_dmabuf_gpu_la_SOURCES = $(src_uct_ib_dmabuf_gpu_sources)
libib_dmabuf_gpu_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
