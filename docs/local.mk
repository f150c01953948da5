# SPDX-License-Identifier: BSD-3-Clause
LAB_TAP_TESTS += docs/commands.tap
TAP_TESTS     += docs/messages.tap docs/named.tap docs/settings.tap docs/steps.tap $(docs_man_tap)
dist_man_MANS += docs/man/ucx-dmabuf-run.1 docs/man/ucx_dmabuf_info.1 \
    docs/man/ucx-ib-dmabuf.7
