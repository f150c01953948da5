# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_prove.la
libib_dmabuf_prove_la_SOURCES = \
    src/uct/ib_dmabuf/prove/host_pages.h \
    src/uct/ib_dmabuf/prove/loopback.cc \
    src/uct/ib_dmabuf/prove/loopback.h \
    src/uct/ib_dmabuf/prove/proof.cc \
    src/uct/ib_dmabuf/prove/proof.h \
    src/uct/ib_dmabuf/prove/proofs.cc \
    src/uct/ib_dmabuf/prove/proofs.h \
    src/uct/ib_dmabuf/prove/prove.cc \
    src/uct/ib_dmabuf/prove/wire.h
libib_dmabuf_prove_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
