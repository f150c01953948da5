# SPDX-License-Identifier: BSD-3-Clause
# Sourced by soak: what it runs. In a setting, "@" is a number drawn anew for
# each run.
# shellcheck shell=bash disable=SC2034

# Options of the lab; the rounds take them in turn.
labs=(
    ""
    "--hosts 2"
    "--rails 2"
)

# NAME | none, some or any: what may be staged | groups of mpi_tests | settings
variants=(
    "storm | none | storm |"
    "no hooks | none | storm | UCX_MEM_CUDA_HOOK_MODE=none UCX_MEMTYPE_CACHE=n"
    "little room | none | storm | UCX_IB_DMABUF_MAX_SIZE=4m"
    "few regions | none | storm | UCX_IB_DMABUF_MAX_REGIONS=3"
    "threads | any | threads |"
    "fork | none | fork |"
    "memory used again | none | reuse |"
    # The proof of the other GPU would be counted: it copies.
    "a context reset | none | reset | UCX_IB_DMABUF_PROVE=off"
    "hostile buffers | none | edges lifetime segments streams |"
    "released while sent | any | sent |"
    "released while received | any | received |"
    "small chunks | none | edges segments | UCX_IB_DMABUF_CHUNK_SIZE=2m"
)

# Outside the lab, where threads run at the same time: NAME | PROGRAM ARGUMENT...
programs=(
    "cache, threads | test/gtest/rcache/test_rcache --gtest_filter=threads_test.*"
    "cache, model | test/gtest/rcache/test_model"
)
