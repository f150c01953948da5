# SPDX-License-Identifier: BSD-3-Clause
if HAVE_UCX
TAP_TESTS += \
    test/sanitize/address.tap \
    test/sanitize/thread.tap
endif
dist_noinst_DATA += \
    test/sanitize/address.tap \
    test/sanitize/leaks.supp \
    test/sanitize/races.supp \
    test/sanitize/sanitize.sh \
    test/sanitize/thread.tap

clean-local: clean-sanitize
.PHONY: clean-sanitize
clean-sanitize:
	rm -rf test/sanitize/build-address test/sanitize/build-thread
