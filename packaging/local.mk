# SPDX-License-Identifier: BSD-3-Clause
# "make dist" gives whoever packs a version the same bytes: the files have the date
# of the newest release in NEWS, in place of the time, the owner and the umask here.
release_time = $(shell date -u -d \
    "$$(sed -n '/^[0-9]/ { s/.*(\(.*\)).*/\1/p; q; }' $(top_srcdir)/NEWS)" +%s)
alike = --sort=name --format=posix --owner=0 --group=0 --numeric-owner \
        --mode=u+rw,go+r,go-w,a+X --mtime=@$(release_time) \
        --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime
am__tar = LC_ALL=C $${TAR-tar} $(alike) -chf - "$$tardir"

# $(call stage,FOLDER,PREFIX,WHAT): all that is installed, stripped, in a folder that was
# not there; not libtool's own; and the pages that messages name. WHAT may lie anywhere, so
# that all has to be found from where ucx-dmabuf-run is.
stage = $(AM_V_GEN)rm -rf $(1) && $(MKDIR_P) $(1) && \
    { $(MAKE) install-strip DESTDIR='$(abs_builddir)/$(1)' prefix=$(2) >$(1).log 2>&1 || \
      { cat $(1).log >&2; exit 1; }; } && \
    { $(1)$(2)/bin/ucx-dmabuf-run --print >$(1).log 2>&1 || \
      { echo 'configure without --libdir and --bindir for $(3)' >&2; exit 1; }; } && \
    rm $(1).log && find $(1) -name '*.la' -exec rm {} + && \
    $(MKDIR_P) $(1)$(2)/docs/figures && \
    cp $(addprefix $(top_srcdir)/,LICENSE packaging/NOTICE README.md NEWS) $(1)$(2) && \
    cp $(top_srcdir)/docs/*.md $(top_srcdir)/docs/hardware.txt $(1)$(2)/docs && \
    cp $(top_srcdir)/docs/figures/*.svg $(1)$(2)/docs/figures

include packaging/tarball/local.mk
include packaging/wheel/local.mk
include packaging/found/local.mk

spack = packaging/spack/spack_repo/ucx_ib_dmabuf

# Folders where nobody else has anything.
uninstall-hook:
	-for folder in '$(DESTDIR)$(moduledir)' '$(DESTDIR)$(modulefiledir)'; do \
	    test ! -d "$$folder" || rmdir --ignore-fail-on-non-empty "$$folder"; \
	done
