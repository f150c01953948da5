# SPDX-License-Identifier: BSD-3-Clause
LAB_TAP_TESTS += docs/commands.tap
EXTRA_DIST += \
    docs/architecture.md \
    docs/cache.md \
    docs/commands.awk \
    docs/commands.txt \
    docs/conformance.md \
    docs/copy-transport.md \
    docs/demo.md \
    docs/events.md \
    docs/ucp-cache.md \
    docs/lab.md \
    docs/proof.md \
    docs/simulated-gpu.md \
    docs/soak.md \
    docs/stock-mpi.md \
    docs/ucx-cost-model.md \
    docs/ucx-generations.md
