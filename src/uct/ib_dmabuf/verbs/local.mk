# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_verbs.la
libib_dmabuf_verbs_la_SOURCES = \
    src/uct/ib_dmabuf/verbs/errors.cc \
    src/uct/ib_dmabuf/verbs/errors.h \
    src/uct/ib_dmabuf/verbs/ladder.cc \
    src/uct/ib_dmabuf/verbs/ladder.h
libib_dmabuf_verbs_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
