# SPDX-License-Identifier: BSD-3-Clause
# What "make install" installs, in a folder that may lie anywhere: configured
# --with-glibc=2.28 also on older systems than this one.
binary        = $(PACKAGE_TARNAME)-$(PACKAGE_VERSION)-$(host_cpu)
tarball_stage = packaging/tarball/stage
.PHONY: tarball
tarball: all
	$(call stage,$(tarball_stage),/$(binary),a tarball) && \
	LC_ALL=C tar $(alike) -C $(tarball_stage) -cJf $(binary).tar.xz $(binary) && \
	rm -rf $(tarball_stage)
CLEANFILES += $(binary).tar.xz
