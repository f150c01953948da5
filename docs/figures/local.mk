# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS           += $(docs_figures_tap)
