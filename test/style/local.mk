# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS += \
    test/style/format.tap \
    test/style/rooms.tap \
    test/style/tidied.tap \
    test/style/tidy.tap
EXTRA_DIST += \
    test/style/files.sh \
    test/style/format.tap \
    test/style/rooms.tap \
    test/style/tidied.tap \
    test/style/tidy.sh \
    test/style/tidy.tap
