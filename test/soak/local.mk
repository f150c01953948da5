# SPDX-License-Identifier: BSD-3-Clause
if HAVE_MPI
TAP_TESTS += $(test_soak_tap)
endif
