# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS           += test/mutate/mutate.tap
dist_noinst_SCRIPTS += test/mutate/mutate
dist_noinst_DATA    += test/mutate/mutants
