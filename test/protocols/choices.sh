# SPDX-License-Identifier: BSD-3-Clause
# Sourced in the lab: what UCX chooses.
# shellcheck shell=bash disable=SC2154 # the environment of the tests

. "$top_srcdir/test/mpi/functions.sh"

# choices SPEED|IPC y|n device|host: with the plug-in (y) or without it, UCX's tables of
# protocols, a line each: SPEED y|n | RANGE | DESCRIPTION | LANES |. With IPC the GPUs of
# one machine reach each other, at 200 Gb/s to the NIC. A UCX without CUDA does nothing with
# GPU memory without the plug-in.
choices() {
    local speed=$1 transports=$UCX_TLS ipc=own
    [ "$1" != IPC ] || speed=HDR transports=rc,cuda ipc=all
    if [ "$2:$3" = n:device ] && ! has_cuda; then
        return
    fi
    RXE_DMABUF_SPEED=$speed UCX_TLS=$transports CUDA_SIM_IPC=$ipc \
        UCX_IB_DMABUF_PLUGIN=$2 UCX_PROTO_INFO=y \
        "$lab_env" env -u UCX_PREFIX "$top_builddir/test/protocols/operations" "$3" \
        >"$mpi_output" 2>&1 && grep -q "every byte is right" "$mpi_output" || {
        echo "$1 $2 $3: the operations failed" >&2
        cat "$mpi_output" >&2
        return 1
    }
    sed -n "s/^[^|]*|/$1 $2 |/p" "$mpi_output"
}
