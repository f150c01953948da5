# SPDX-License-Identifier: BSD-3-Clause
LAB_TAP_TESTS += docs/commands.tap
TAP_TESTS     += docs/links.tap docs/messages.tap docs/named.tap docs/settings.tap
TAP_TESTS     += docs/man/man.tap
dist_man_MANS += docs/man/ucx-dmabuf-run.1 docs/man/ucx_dmabuf_info.1 \
    docs/man/ucx-ib-dmabuf.7
EXTRA_DIST += \
    docs/architecture.md \
    docs/cache.md \
    docs/commands.awk \
    docs/commands.txt \
    docs/comparison.md \
    docs/conformance.md \
    docs/events.md \
    docs/guide.md \
    docs/info.md \
    docs/install.md \
    docs/lab.md \
    docs/links.awk \
    docs/messages.py \
    docs/proof.md \
    docs/security.md \
    docs/settings.md \
    docs/side-by-side.md \
    docs/simulated-gpu.md \
    docs/troubleshooting.md \
    docs/ucp-cache.md \
    docs/ucx-generations.md
