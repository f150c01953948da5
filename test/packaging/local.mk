# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS        += test/packaging/debian.tap test/packaging/dist.tap \
                    test/packaging/found.tap test/packaging/install.tap \
                    test/packaging/rpm.tap test/packaging/spack.tap \
                    test/packaging/tarball.tap test/packaging/wheel.tap
dist_noinst_SCRIPTS += test/packaging/make_package.sh
dist_noinst_DATA += test/packaging/old_glibc.cc test/packaging/old_start.c

clean-local: clean-packaging
.PHONY: clean-packaging
clean-packaging:
	rm -rf test/packaging/deb test/packaging/rpm
