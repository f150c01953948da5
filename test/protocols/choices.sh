# SPDX-License-Identifier: BSD-3-Clause
# Sourced in the lab: what UCX chooses.
# shellcheck shell=bash disable=SC2154 # the environment of the tests

# shellcheck source=test/mpi/functions.sh
. "$top_srcdir/test/mpi/functions.sh"

# choices SPEED y|n device|host: with the plug-in (y) or without it, UCX's tables of
# protocols, a line each: SPEED y|n | RANGE | DESCRIPTION | LANES |. A UCX without
# CUDA does nothing with GPU memory without the plug-in.
choices() {
    if [ "$2:$3" = n:device ] && ! has_cuda; then
        return
    fi
    RXE_DMABUF_SPEED=$1 UCX_IB_DMABUF_PLUGIN=$2 UCX_PROTO_INFO=y \
        "$lab_env" env -u UCX_PREFIX "$top_builddir/test/protocols/operations" "$3" \
        >"$mpi_output" 2>&1 && grep -q "every byte is right" "$mpi_output" || {
        echo "$1 $2 $3: the operations failed" >&2
        cat "$mpi_output" >&2
        return 1
    }
    sed -n "s/^[^|]*|/$1 $2 |/p" "$mpi_output"
}

has_cuda() {
    local module
    for module in "$UCX_PREFIX"/lib/ucx/libuct_cuda.so*; do
        [ ! -e "$module" ] || return 0
    done
    return 1
}
