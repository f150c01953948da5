# SPDX-License-Identifier: BSD-3-Clause
if HAVE_MPI
TAP_TESTS += test/soak/soak.tap
endif
dist_check_SCRIPTS += test/soak/soak
dist_noinst_DATA += \
    test/soak/report.awk \
    test/soak/soak.tap \
    test/soak/variants.sh
