# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS           += docs/figures/figures.tap
dist_noinst_SCRIPTS += docs/figures/plot
EXTRA_DIST += \
    docs/figures/overlaps.py \
    docs/figures/side-by-side.json \
    docs/figures/side-by-side.svg
