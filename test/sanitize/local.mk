# SPDX-License-Identifier: BSD-3-Clause
if HAVE_UCX
TAP_TESTS += $(test_sanitize_tap)
endif

clean-local: clean-sanitize
.PHONY: clean-sanitize
clean-sanitize:
	rm -rf test/sanitize/build-address test/sanitize/build-thread
