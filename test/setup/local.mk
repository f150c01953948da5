# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += \
    test/setup/common.sh \
    test/setup/kernel.sh \
    test/setup/link_stub.c \
    test/setup/packages.sh \
    test/setup/ucx.sh
