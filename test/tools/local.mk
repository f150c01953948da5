# SPDX-License-Identifier: BSD-3-Clause
check_LTLIBRARIES += test/tools/libibverbs.la
TAP_TESTS         += $(test_tools_tap)
LAB_TESTS         += $(test_tools_lab)
# The rpath makes libtool build a shared library; it is installed nowhere.
test_tools_libibverbs_la_SOURCES = $(verbs_sim_sources) test/tools/fake_ibverbs.cc
test_tools_libibverbs_la_CXXFLAGS = $(HIDDEN_CXXFLAGS)
test_tools_libibverbs_la_LDFLAGS = $(AM_LDFLAGS) -shared -rpath /nonexistent \
    -version-info 1:0:0

check_PROGRAMS += test/tools/shows_page
test_tools_shows_page_SOURCES = test/tools/shows_page.cc
test_tools_shows_page_LDADD   = libib_dmabuf_stats.la
