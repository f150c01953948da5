# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_report.la
libib_dmabuf_report_la_SOURCES = src/uct/ib_dmabuf/report.cc
libib_dmabuf_report_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
libib_dmabuf_report_la_LIBADD   = libib_dmabuf_ucx.la
