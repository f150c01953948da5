# SPDX-License-Identifier: BSD-3-Clause
# Sourced in the lab: runs scenarios with the plug-in and without. Records go to
# $records: "SCENARIO with|without FIGURE VALUE", one run a line; figures are
# the sum of both ranks'.
# shellcheck shell=bash disable=SC2154 # the environment of the tests

. "$top_srcdir/test/mpi/functions.sh"

# Exports, registrations and calls of the driver are counted for the same messages, and
# the nth fails, on both sides: without the proof's, which are the same few for each job.
export UCX_IB_DMABUF_PROVE=off
# A job that hangs is a result, too.
export MPIEXEC_TIMEOUT=100

# The sums of both ranks' last figures.
add_figures() {
    awk '
        FNR == 1 { ++file }
        { last[file, $1] = $2; names[$1] = 1 }
        END {
            for (name in names) {
                sum = 0
                for (i = 1; i <= file; ++i) sum += last[i, name]
                printf "%s %.12g\n", name, sum
            }
        }' "$@"
}

# one_side NAME with|without SCENARIO [ARGUMENT]...
one_side() {
    local record="$1 $2" plugin=y status
    [ "$2" = with ] || plugin=n
    shift 2
    rm -f "$mpi_work"/figures.*
    UCX_IB_DMABUF_PLUGIN=$plugin with_mpi 2 \
        "$top_builddir/test/side_by_side/side_by_side" "$mpi_work/figures" "$@"
    status=$?
    {
        echo "status $status"
        add_figures "$mpi_work"/figures.*
        # The first thing that was said, without time, place and process.
        sed -nE 's/^\[[^]]*\] *\[[^]]*\] *[^ ]+ +(UCX +)?(WARN|ERROR) +/said /p
                 s/^.*(ucx (send|recv) failed|Caught signal)/said \1/p' \
            "$mpi_errors" | head -n 1
    } | sed "s/^/$record /" >>"$records"
}

# compare NAME SCENARIO [ARGUMENT]...: settings are in the environment.
compare() {
    echo "  $1" >&2
    one_side "$1" without "${@:2}"
    one_side "$1" with "${@:2}"
}

# trace MODEL KIND KEEP: of so many uses one is a message
trace() {
    awk -v model="$1" -f "$top_srcdir/test/side_by_side/traces.awk" >"$mpi_work/$1"
    compare "$1" trace "$mpi_work/$1" "$2" "$3"
}

all_counts() {
    local kind
    trace pytorch device 17
    trace expandable vmm 16
    trace growing vmm 21
    trace async pool 17
    trace mpi device 199
    compare vmm vmm
    for kind in device vmm pool; do
        compare free-$kind free $kind
        compare again-$kind again $kind
    done
    for kind in device vmm; do
        # UCX without hooks has to be told to keep no cache of memory types.
        UCX_MEM_CUDA_HOOK_MODE=none UCX_MEMTYPE_CACHE=n \
            compare blind-$kind again $kind
    done
    CUDA_SIM_BAR1_MIB=32 RXE_DMABUF_ROOM=$((32 << 20)) compare full turn 12 4 3
    RXE_DMABUF_ROOM=$((32 << 20)) compare unknown turn 12 4 3
    RXE_DMABUF_FAIL=ENOMEM:3 compare fail-registration turn 8 2 2
    CUDA_SIM_FAIL=cuMemGetHandleForAddressRange=2:3 \
        compare fail-export turn 8 2 2
    compare start turn 1 2 1
}
