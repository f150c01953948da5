# SPDX-License-Identifier: BSD-3-Clause
bin_SCRIPTS      += src/run/ucx-dmabuf-run
CLEANFILES       += src/run/ucx-dmabuf-run

bashcompletiondir        = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = src/run/bash/ucx-dmabuf-run
zshcompletiondir         = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA  = src/run/zsh/_ucx-dmabuf-run

src/run/ucx-dmabuf-run: $(top_srcdir)/src/run/ucx-dmabuf-run.in Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	relative=$$(realpath -m --relative-to='$(bindir)' '$(libdir)') && \
	sed -e "s|@relative_libdir@|$$relative|" \
	    -e 's|@version@|$(PACKAGE_VERSION)|' \
	    $(top_srcdir)/src/run/ucx-dmabuf-run.in >$@.new && \
	chmod +x $@.new && mv $@.new $@
