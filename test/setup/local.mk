# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS  += test/setup/setup.tap test/setup/tests.tap
EXTRA_DIST += \
    test/setup/clean_root.sh \
    test/setup/common.sh \
    test/setup/kernel.sh \
    test/setup/mpi_wheel.sh \
    test/setup/mpi_wheels \
    test/setup/openmpi.sh \
    test/setup/packages.sh \
    test/setup/setup.tap \
    test/setup/tests.sh \
    test/setup/tests.tap \
    test/setup/ucx_tests \
    test/setup/ucx_wheel.sh \
    test/setup/ucx_wheels \
    test/setup/wheels.sh
EXTRA_DIST += .ci/run .shellcheckrc
