# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_metrics.la
libib_dmabuf_metrics_la_SOURCES = \
    src/uct/ib_dmabuf/metrics/fallbacks.h \
    src/uct/ib_dmabuf/metrics/file.cc \
    src/uct/ib_dmabuf/metrics/file.h \
    src/uct/ib_dmabuf/metrics/histogram.h \
    src/uct/ib_dmabuf/metrics/live_page.cc \
    src/uct/ib_dmabuf/metrics/live_page.h \
    src/uct/ib_dmabuf/metrics/live_reader.cc \
    src/uct/ib_dmabuf/metrics/live_reader.h \
    src/uct/ib_dmabuf/metrics/metric.cc \
    src/uct/ib_dmabuf/metrics/metric.h \
    src/uct/ib_dmabuf/metrics/pairs.h \
    src/uct/ib_dmabuf/metrics/render.cc \
    src/uct/ib_dmabuf/metrics/render.h
libib_dmabuf_metrics_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
