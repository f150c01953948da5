# SPDX-License-Identifier: BSD-3-Clause
# Which protocol UCX chooses for GPU memory, by the speed of the link.
if HAVE_MPI
LAB_TESTS += $(test_protocols_lab)
endif
