# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libib_dmabuf_host.la
libib_dmabuf_host_la_SOURCES = \
    src/uct/ib_dmabuf/host/abi.h \
    src/uct/ib_dmabuf/host/copier.h \
    src/uct/ib_dmabuf/host/copy_component.cc \
    src/uct/ib_dmabuf/host/copy_component.h \
    src/uct/ib_dmabuf/host/cuda_module.cc \
    src/uct/ib_dmabuf/host/cuda_module.h \
    src/uct/ib_dmabuf/host/copy_iface.cc \
    src/uct/ib_dmabuf/host/domain.cc \
    src/uct/ib_dmabuf/host/domain.h \
    src/uct/ib_dmabuf/host/failures.cc \
    src/uct/ib_dmabuf/host/host.cc \
    src/uct/ib_dmabuf/host/host.h \
    src/uct/ib_dmabuf/host/library.cc \
    src/uct/ib_dmabuf/host/library.h \
    src/uct/ib_dmabuf/host/log.cc \
    src/uct/ib_dmabuf/host/log.h \
    src/uct/ib_dmabuf/host/look_up.h \
    src/uct/ib_dmabuf/host/serve.cc \
    src/uct/ib_dmabuf/host/settings.cc \
    src/uct/ib_dmabuf/host/settings.h \
    src/uct/ib_dmabuf/host/start_lock.h \
    src/uct/ib_dmabuf/host/transport_types.h \
    src/uct/ib_dmabuf/host/types.h \
    src/uct/ib_dmabuf/host/ucm.cc \
    src/uct/ib_dmabuf/host/ucm.h \
    src/uct/ib_dmabuf/host/ucp.cc \
    src/uct/ib_dmabuf/host/ucp.h \
    src/uct/ib_dmabuf/host/ucp_types.h \
    src/uct/ib_dmabuf/host/ucs.cc \
    src/uct/ib_dmabuf/host/ucs.h \
    src/uct/ib_dmabuf/host/verbs.cc \
    src/uct/ib_dmabuf/host/verbs.h \
    src/uct/ib_dmabuf/host/version.cc \
    src/uct/ib_dmabuf/host/version.h
libib_dmabuf_host_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
