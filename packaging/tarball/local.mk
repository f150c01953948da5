# SPDX-License-Identifier: BSD-3-Clause
# What "make install" installs, in a folder that may lie anywhere: configured
# --with-glibc=2.28 also on older systems than this one.
binary = $(PACKAGE_TARNAME)-$(PACKAGE_VERSION)-$(host_cpu)
stage  = packaging/tarball/stage
.PHONY: tarball
tarball: all
	$(AM_V_GEN)rm -rf $(stage) && $(MKDIR_P) $(stage) && \
	{ $(MAKE) install-strip DESTDIR='$(abs_builddir)/$(stage)' prefix=/$(binary) \
	    >$(stage)/log 2>&1 || { cat $(stage)/log >&2; exit 1; }; } && \
	$(stage)/$(binary)/bin/ucx-dmabuf-run --print >$(stage)/log || \
	    { echo 'configure without --libdir and --bindir for a tarball' >&2; exit 1; } && \
	find $(stage) -name '*.la' -exec rm {} + && \
	cp $(top_srcdir)/LICENSE $(top_srcdir)/README.md $(top_srcdir)/NEWS $(stage)/$(binary) && \
	LC_ALL=C tar $(alike) -C $(stage) -cJf $(binary).tar.xz $(binary) && \
	rm -rf $(stage)
CLEANFILES += $(binary).tar.xz
