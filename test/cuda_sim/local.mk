# SPDX-License-Identifier: BSD-3-Clause
# The simulated GPU: libcuda, libcudart, libnvidia-ml. Never installed.
check_LTLIBRARIES += \
    test/cuda_sim/libcuda.la \
    test/cuda_sim/libcudart.la \
    test/cuda_sim/other/libcudart.la \
    test/cuda_sim/libnvidia-ml.la

# The rpath makes libtool build shared libraries; nothing is installed there.
CUDA_SIM_LDFLAGS = $(AM_LDFLAGS) -shared -rpath /nonexistent
# A sanitizer's functions are in the programs.
if !SANITIZER
CUDA_SIM_LDFLAGS += -Wl,--no-undefined
endif
CUDA_SIM_CPPFLAGS = $(CUDA_CPPFLAGS)

test_cuda_sim_libcuda_la_SOURCES = $(test_cuda_sim_driver_sources)
test_cuda_sim_libcuda_la_CPPFLAGS = $(CUDA_SIM_CPPFLAGS)
test_cuda_sim_libcuda_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
# Like the real one, it stays once it is loaded.
test_cuda_sim_libcuda_la_LDFLAGS = $(CUDA_SIM_LDFLAGS) \
    -version-info 1:0:0 -Wl,-z,nodelete \
    -Wl,--version-script=$(top_srcdir)/test/cuda_sim/driver/cuda.map
test_cuda_sim_libcuda_la_LIBADD = -lpthread -ldl
EXTRA_test_cuda_sim_libcuda_la_DEPENDENCIES = test/cuda_sim/driver/cuda.map

# The runtime's name and the version of its symbols have CUDA's major version. It
# is built as that of the headers, and as the other one that UCX in wheels wants:
# a process may have both.
CUDART_MAJOR = $(shell awk '/^.define CUDA_VERSION/ { print int($$3 / 1000) }' \
    $(CUDA_DIR)/include/cuda.h)
CUDART_OTHER = $(if $(filter 13,$(CUDART_MAJOR)),12,13)

test_cuda_sim_libcudart_la_SOURCES  = $(test_cuda_sim_runtime_sources)
test_cuda_sim_libcudart_la_CPPFLAGS = $(CUDA_SIM_CPPFLAGS) \
    -DSIM_CUDART_VERSION=CUDART_VERSION
test_cuda_sim_libcudart_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
test_cuda_sim_libcudart_la_LDFLAGS = $(CUDA_SIM_LDFLAGS) \
    -version-info $(CUDART_MAJOR):0:0 \
    -Wl,--version-script=test/cuda_sim/cudart.map
test_cuda_sim_libcudart_la_LIBADD = -ldl
EXTRA_test_cuda_sim_libcudart_la_DEPENDENCIES = test/cuda_sim/cudart.map

test_cuda_sim_other_libcudart_la_SOURCES  = $(test_cuda_sim_runtime_sources)
test_cuda_sim_other_libcudart_la_CPPFLAGS = $(CUDA_SIM_CPPFLAGS) \
    -DSIM_CUDART_VERSION=$(CUDART_OTHER)000
test_cuda_sim_other_libcudart_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
test_cuda_sim_other_libcudart_la_LDFLAGS = $(CUDA_SIM_LDFLAGS) \
    -version-info $(CUDART_OTHER):0:0 \
    -Wl,--version-script=test/cuda_sim/other/cudart.map
test_cuda_sim_other_libcudart_la_LIBADD = -ldl
EXTRA_test_cuda_sim_other_libcudart_la_DEPENDENCIES = \
    test/cuda_sim/other/cudart.map

test/cuda_sim/cudart.map test/cuda_sim/other/cudart.map: \
    $(top_srcdir)/test/cuda_sim/runtime/cudart.map.in
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	sed 's/@MAJOR@/$(if $(findstring other,$@),$(CUDART_OTHER),$(CUDART_MAJOR))/' \
	    $< > $@.tmp && mv $@.tmp $@

test_cuda_sim_libnvidia_ml_la_SOURCES = \
    test/cuda_sim/driver/machine.cc \
    test/cuda_sim/management/nvml.cc
test_cuda_sim_libnvidia_ml_la_CPPFLAGS = $(CUDA_SIM_CPPFLAGS)
test_cuda_sim_libnvidia_ml_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
test_cuda_sim_libnvidia_ml_la_LDFLAGS  = $(CUDA_SIM_LDFLAGS) \
    -version-info 1:0:0 -Wl,-z,nodelete

# All under the names by which programs find them, in a folder of their
# own: "make cuda-sim" makes it, and "make check".
CUDA_SIM_STAMP = test/cuda_sim/lib/stamp
check_DATA = $(CUDA_SIM_STAMP)

cuda-sim: $(CUDA_SIM_STAMP)

# A library is replaced by renaming: programs that run keep the one they have.
$(CUDA_SIM_STAMP): test/cuda_sim/libcuda.la test/cuda_sim/libcudart.la \
                   test/cuda_sim/other/libcudart.la \
                   test/cuda_sim/libnvidia-ml.la
	$(AM_V_GEN)$(MKDIR_P) test/cuda_sim/lib && \
	for path in .libs/libcuda.so.1 .libs/libcudart.so.$(CUDART_MAJOR) \
	            other/.libs/libcudart.so.$(CUDART_OTHER) \
	            .libs/libnvidia-ml.so.1; do \
	    name=$${path##*/}; \
	    cp -L test/cuda_sim/$$path test/cuda_sim/lib/$$name.tmp && \
	    mv test/cuda_sim/lib/$$name.tmp test/cuda_sim/lib/$$name || exit 1; \
	done && touch $@

CLEANFILES += \
    $(CUDA_SIM_STAMP) \
    test/cuda_sim/cudart.map \
    test/cuda_sim/other/cudart.map \
    test/cuda_sim/lib/libcuda.so.1 \
    test/cuda_sim/lib/libcudart.so.$(CUDART_MAJOR) \
    test/cuda_sim/lib/libcudart.so.$(CUDART_OTHER) \
    test/cuda_sim/lib/libnvidia-ml.so.1

# What is claimed of a GPU, checked on the simulated one. The program can be
# built by itself and run on a real one (docs/testing.md).
check_PROGRAMS += test/cuda_sim/conformance/conformance
test_cuda_sim_conformance_conformance_SOURCES = $(test_cuda_sim_conformance_sources)
test_cuda_sim_conformance_conformance_LDADD    = -ldl -lpthread

TAP_TESTS  += $(test_cuda_sim_conformance_tap)
LAB_TESTS  += $(test_cuda_sim_conformance_lab)
