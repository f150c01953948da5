# SPDX-License-Identifier: BSD-3-Clause
ucm_tests = \
    test/gtest/ucm/test_patch \
    test/gtest/ucm/test_patch_threads \
    test/gtest/ucm/test_events \
    test/gtest/ucm/test_events_sim
check_PROGRAMS += $(ucm_tests)
UNIT_TESTS     += $(ucm_tests)

ucm_test_libs = libib_dmabuf_ucm.la libib_dmabuf_ucx.la $(GTEST_LIBS) -lucm -lucs -ldl

# Of each architecture one has tests in it.
test_gtest_ucm_test_patch_SOURCES = \
    test/gtest/ucm/test_moves_aarch64.cc \
    test/gtest/ucm/test_patch.cc \
    test/gtest/ucm/test_patch_aarch64.cc \
    test/gtest/ucm/test_patch_compiled.cc
test_gtest_ucm_test_patch_CPPFLAGS = $(AM_CPPFLAGS) \
    -DCOMPILED_LIBRARIES='"$(abs_top_builddir)/test/gtest/ucm/compiled/"'
test_gtest_ucm_test_patch_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_ucm_test_patch_LDADD   = $(ucm_test_libs) -lgtest_main
EXTRA_test_gtest_ucm_test_patch_DEPENDENCIES = test/gtest/ucm/compiled/stamp
CLEANFILES += test/gtest/ucm/compiled/*

# CLANG is another compiler, if there is one. Code of the C library and of the
# compiler's may lack landing pads: its start files, its atomics.
if HOST_AARCH64
LANDING_PADS = -mbranch-protection=standard -Wl,-z,force-bti -mno-outline-atomics
else
LANDING_PADS = -fcf-protection
endif
ucm_compile = for level in 0 2; do for pads in "" "$(LANDING_PADS)"; do \
    $(2) -g1 -O$$level $$pads -fPIC -shared -nostartfiles -falign-functions=16 \
        $(srcdir)/test/gtest/ucm/compiled.c $(srcdir)/test/gtest/ucm/fake_cuda.c \
        -o $(@D)/$(1)_$$level$${pads:+_pads}.so || exit; done; done

test/gtest/ucm/compiled/stamp: test/gtest/ucm/compiled.c \
                               test/gtest/ucm/fake_cuda.c
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(call ucm_compile,cc,$(CC)) && \
	$(if $(CLANG),$(call ucm_compile,clang,$(CLANG)) &&) touch $@

# Without UCX: under ThreadSanitizer its hook of madvise() crashes in threads
# that end.
test_gtest_ucm_test_patch_threads_SOURCES = \
    src/ucm/aarch64.cc \
    src/ucm/code_patch.cc \
    src/ucm/x86_64.cc \
    test/gtest/ucm/test_patch_threads.cc
test_gtest_ucm_test_patch_threads_LDFLAGS = $(AM_LDFLAGS) \
    -Wl,--wrap=syscall,--wrap=__clear_cache
test_gtest_ucm_test_patch_threads_LDADD = $(GTEST_LIBS) -lgtest_main

test_gtest_ucm_test_events_SOURCES = \
    $(alloc_faults_sources) \
    test/gtest/ucm/alone.cc \
    test/gtest/ucm/test_events.cc \
    test/gtest/ucm/test_events_gaps.cc \
    test/gtest/ucm/test_events_owners.cc
test_gtest_ucm_test_events_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS) $(alloc_faults_ldflags)
test_gtest_ucm_test_events_LDADD   = $(ucm_test_libs)
EXTRA_test_gtest_ucm_test_events_DEPENDENCIES = $(ucm_fakes)

test_gtest_ucm_test_events_sim_SOURCES = \
    test/gtest/ucm/alone.cc \
    test/gtest/ucm/test_events_sim.cc \
    test/gtest/ucm/test_events_ucx.cc
test_gtest_ucm_test_events_sim_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS) \
    -DCUDART_NAME='"libcudart.so.$(CUDART_MAJOR)"'
test_gtest_ucm_test_events_sim_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_ucm_test_events_sim_LDADD    = $(ucm_test_libs)
EXTRA_test_gtest_ucm_test_events_sim_DEPENDENCIES = $(CUDA_SIM_STAMP) \
                                                    $(ucm_fakes)

# Driver libraries for the tests, found by their soname as the real one is;
# never sanitized, as the real one is not.
ucm_fakes = \
    test/gtest/ucm/fake/libcuda.so.1 \
    test/gtest/ucm/fake_odd/libcuda.so.1 \
    test/gtest/ucm/fake_old/libcuda.so.1 \
    test/gtest/ucm/fake/interposer.so
CLEANFILES += $(ucm_fakes)

# Entry points begin at multiples of 16, as a driver's do, also without -O2.
ucm_fake_link = $(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) $(CFLAGS) -fPIC -shared \
                -falign-functions=16

test/gtest/ucm/fake/libcuda.so.1: test/gtest/ucm/fake_cuda.c
	$(ucm_fake_link) -Wl,-soname,libcuda.so.1 -o $@ \
	    $(srcdir)/test/gtest/ucm/fake_cuda.c

test/gtest/ucm/fake_odd/libcuda.so.1: test/gtest/ucm/fake_cuda.c
	$(ucm_fake_link) -DFAKE_ODD -Wl,-soname,libcuda.so.1 -o $@ \
	    $(srcdir)/test/gtest/ucm/fake_cuda.c

test/gtest/ucm/fake_old/libcuda.so.1: test/gtest/ucm/fake_cuda.c
	$(ucm_fake_link) -DFAKE_OLD -Wl,-soname,libcuda.so.1 -o $@ \
	    $(srcdir)/test/gtest/ucm/fake_cuda.c

test/gtest/ucm/fake/interposer.so: test/gtest/ucm/interposer.c
	$(ucm_fake_link) -o $@ $(srcdir)/test/gtest/ucm/interposer.c -ldl
