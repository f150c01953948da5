# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS        += $(test_packaging_tap)

clean-local: clean-packaging
.PHONY: clean-packaging
clean-packaging:
	rm -rf test/packaging/deb test/packaging/rpm test/packaging/all
