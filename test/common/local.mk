# SPDX-License-Identifier: BSD-3-Clause
# The cache's world, simulated: tables.
fakes_sources = test/common/fakes.cc

# For tests of memory pressure: these sources, and these flags for the linker.
alloc_faults_sources = test/common/alloc_faults.cc
alloc_faults_ldflags = -Wl,--wrap=mmap
