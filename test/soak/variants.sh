#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A round of a soak, in the lab. The last line is "the end".
# usage: variants.sh SEED STORM
. "$top_srcdir/test/mpi/functions.sh"

export MPI_TESTS_SEED=$1 MPI_TESTS_STORM=$2
# All by the NIC, memory of streams, too: UCX from 1.22 on stages most of a pool as an H100
# exports it.
export UCX_CUDA_COPY_ASYNC_MEM_TYPE=cuda CUDA_SIM_POOL_EXPORT=y

# variant NAME none|any "GROUP..." [SETTING]...
variant() {
    local cases_prefix="seed $MPI_TESTS_SEED, $1: " allowed=$2 groups setting
    read -ra groups <<<"$3"
    for setting in "${@:4}"; do
        local -x "${setting?}"
    done
    run_cases 2 "$allowed" "${groups[@]}"
}

variant "storm" none storm
variant "no hooks" none storm UCX_MEM_CUDA_HOOK_MODE=none UCX_MEMTYPE_CACHE=n
variant "little room" none storm UCX_IB_DMABUF_MAX_SIZE=4m
variant "few regions" none storm UCX_IB_DMABUF_MAX_REGIONS=3
variant "threads" any threads
variant "fork" none fork
variant "memory used again" none reuse
# The proof of the other GPU would be counted: it copies.
variant "a context reset" none reset UCX_IB_DMABUF_PROVE=off
variant "hostile buffers" none "edges lifetime segments streams"
variant "released while sent" any sent
variant "released while received" any received
variant "small chunks" none "edges segments" UCX_IB_DMABUF_CHUNK_SIZE=2m
echo "the end"
