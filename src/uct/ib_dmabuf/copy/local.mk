# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_copy.la
libib_dmabuf_copy_la_SOURCES = src/uct/ib_dmabuf/copy/copier.cc
libib_dmabuf_copy_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
