# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS  += $(docs_site_tap)

# The pages as a site, in the folder "site".
.PHONY: site
site:
	rm -rf site
	PYTHONDONTWRITEBYTECODE=1 sphinx-build -q -W --keep-going -d site/.trees \
	    -c '$(srcdir)/docs/site' '$(srcdir)' site
	rm -rf site/.trees site/.buildinfo
	cp site/README.html site/index.html

.PHONY: clean-site
clean-local: clean-site
clean-site:
	rm -rf site
