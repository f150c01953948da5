# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_metrics.la
libib_dmabuf_metrics_la_SOURCES = \
    src/uct/ib_dmabuf/metrics/file.cc \
    src/uct/ib_dmabuf/metrics/file.h \
    src/uct/ib_dmabuf/metrics/live.cc \
    src/uct/ib_dmabuf/metrics/live.h \
    src/uct/ib_dmabuf/metrics/live_reader.cc \
    src/uct/ib_dmabuf/metrics/metrics.cc \
    src/uct/ib_dmabuf/metrics/metrics.h \
    src/uct/ib_dmabuf/metrics/render.cc \
    src/uct/ib_dmabuf/metrics/render.h
libib_dmabuf_metrics_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
