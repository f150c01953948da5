# SPDX-License-Identifier: BSD-3-Clause
# Sourced in the lab: what UCX chooses.
# shellcheck shell=bash disable=SC2154 # the environment of the tests

. "$top_srcdir/test/mpi/functions.sh"

# choices SPEED|IPC y|n device|host: with the plug-in (y) or without it, UCX's tables of
# protocols, a line each: SPEED y|n | RANGE | DESCRIPTION | LANES |. With IPC the GPUs of
# one machine reach each other, at 200 Gb/s to the NIC. A UCX without CUDA does nothing with
# GPU memory without the plug-in, and its ucx_perftest knows none. Blocking sends are MPI's, which begins with GPU memory.
choices() {
    local speed=$1 ipc=own memory=cuda group=brief test
    local -x UCX_TLS=$UCX_TLS UCX_IB_DMABUF_PLUGIN=$2 UCX_PROTO_INFO=y UCX_NUM_PPN=1
    [ "$1" != IPC ] || speed=HDR UCX_TLS=rc,cuda ipc=all
    [ "$3" != host ] || memory=host group=host
    [ "$2:$3" != n:device ] || has_cuda || return 0
    local -x RXE_DMABUF_SPEED=$speed CUDA_SIM_IPC=$ipc
    rm -f "$mpi_work"/{client,choices.*}
    if has_cuda || [ $memory = host ]; then
        for test in tag_lat ucp_am_lat ucp_put_lat ucp_get; do
            echo "$test -t $test -s 1048576"
        done >"$mpi_work/batch"
        both_ends -m $memory -b "$mpi_work/batch"
    fi && { { [ $memory = host ] && ! has_cuda; } ||
        UCX_LOG_FILE=$mpi_work/choices.%p with_mpi 2 "$mpi_tests" any 1 $group; } || {
        echo "$1 $2 $3: the operations failed" >&2
        cat "$mpi_work/client" "$mpi_output" "$mpi_errors" >&2
        return 1
    }
    cat "$mpi_work"/{client,choices.*} 2>/dev/null | sed -n "s/^[^|]*|/$1 $2 |/p"
}
