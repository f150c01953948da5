# SPDX-License-Identifier: BSD-3-Clause
# What "make install" installs, as a wheel for pip: configured --with-glibc=2.28 also for
# older systems than this one. All is in a folder of its own in the prefix, which pip removes
# because there is a file in it, the licence; of shared ones, as "share", it would leave empty
# ones. "bin" has what starts the programs there.
if WITH_GLIBC
wheel_platform = manylinux_$(subst .,_,$(GLIBC_VERSION))_$(host_cpu)
else
wheel_platform = linux_$(host_cpu)
endif
wheel        = ucx_ib_dmabuf-$(PACKAGE_VERSION)-py3-none-$(wheel_platform).whl
wheel_stage  = packaging/wheel/stage
wheel_folder = $(wheel_stage)/data/$(PACKAGE_TARNAME)
wheel_module = $(wheel_folder)/lib/ucx/libuct_ib_dmabuf.so

# Not found by LD_LIBRARY_PATH: that may have a plug-in of another version. Nothing of libc
# is in it, so no version of it.
wheel_link = $(CC) $(CFLAGS) $(LDFLAGS) -shared -fPIC -nostdlib -s \
    -Wl,--disable-new-dtags,-rpath,'$$ORIGIN' \
    $(top_srcdir)/packaging/wheel/link.c $(wheel_module).0

.PHONY: wheel
wheel: all
	$(call stage,$(wheel_stage),/data/$(PACKAGE_TARNAME),a wheel) && \
	$(MKDIR_P) $(wheel_stage)/scripts && \
	for program in $(wheel_folder)/bin/*; do \
	    cp $(top_srcdir)/packaging/wheel/start $(wheel_stage)/scripts/$${program##*/} || exit; \
	done && \
	mv "$$(readlink -f $(wheel_module).0)" $(wheel_module).plugin && \
	rm $(wheel_module) $(wheel_module).0 && mv $(wheel_module).plugin $(wheel_module).0 && \
	$(wheel_link) -o $(wheel_module) && cp $(wheel_module) $(wheel_module).0.0.0 && \
	$(MKDIR_P) $(wheel_stage)/dist-info && cp $(top_srcdir)/LICENSE $(wheel_stage)/dist-info && \
	sed 's/@version@/$(PACKAGE_VERSION)/' $(top_srcdir)/packaging/wheel/METADATA.in \
	    >$(wheel_stage)/dist-info/METADATA && \
	python3 $(top_srcdir)/packaging/wheel/pack.py $(wheel) $(wheel_stage) $(release_time) && \
	rm -rf $(wheel_stage)
CLEANFILES += $(wheel)
