# SPDX-License-Identifier: BSD-3-Clause
# What tells others where the plug-in is: a file for pkg-config, and one for Environment
# Modules. Both say it from where they are, so that all may be moved together.
pkgconfigdir   = $(libdir)/pkgconfig
pkgconfig_DATA = packaging/found/ucx-ib-dmabuf.pc
modulefiledir  = $(datadir)/modulefiles/$(PACKAGE_TARNAME)
modulefile_DATA = packaging/found/$(PACKAGE_VERSION)
CLEANFILES += $(pkgconfig_DATA) $(modulefile_DATA)

# $(call from,FOLDER): what the other folders are called there.
from = $(AM_V_GEN)$(MKDIR_P) $(@D) && \
    to_libdir=$$(realpath -m --relative-to='$(1)' '$(libdir)') && \
    to_bindir=$$(realpath -m --relative-to='$(1)' '$(bindir)') && \
    sed -e "s|@to_libdir@|$$to_libdir|; s|@to_bindir@|$$to_bindir|" \
        -e 's|@version@|$(PACKAGE_VERSION)|'

$(pkgconfig_DATA): packaging/found/ucx-ib-dmabuf.pc.in Makefile
	$(call from,$(pkgconfigdir)) $< >$@.new && mv $@.new $@
$(modulefile_DATA): packaging/found/modulefile.in Makefile
	$(call from,$(modulefiledir)) $< >$@.new && mv $@.new $@
