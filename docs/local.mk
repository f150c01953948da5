# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += \
    docs/architecture.md \
    docs/cache.md \
    docs/conformance.md \
    docs/demo.md \
    docs/events.md \
    docs/lab.md \
    docs/simulated-gpu.md
