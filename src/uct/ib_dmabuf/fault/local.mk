# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_fault.la
libib_dmabuf_fault_la_SOURCES = \
    src/uct/ib_dmabuf/fault/handler.cc \
    src/uct/ib_dmabuf/fault/handler.h \
    src/uct/ib_dmabuf/fault/mpi_call.cc \
    src/uct/ib_dmabuf/fault/mpi_call.h
libib_dmabuf_fault_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
