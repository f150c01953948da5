# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts that run inside the lab: how MPI and ucx_perftest are run, and
# which results and counters are expected of them.
# shellcheck shell=bash disable=SC2154 # the environment of the tests

. "$top_srcdir/test/tap/tap.sh"

mpi_work=$(mktemp -d) || exit 1
mpi_output=$mpi_work/output mpi_errors=$mpi_work/errors
lab_env=$top_srcdir/test/lab/env
# The names of all results begin with it.
cases_prefix=

# verdict STATUS NAME FILE...: passes with status 0; the ends of the files are shown if not.
verdict() {
    if [ "$1" -eq 0 ]; then
        ok "$cases_prefix$2"
    else
        nok "$cases_prefix$2"
        note "$(tail -n 40 "${@:3}" 2>&1)"
        return 1
    fi
}

# The NIC moves large messages, and what is staged is counted. With CUDA IPC, which is
# among "cuda", UCX would prefer that on one host, and stage where it takes that for the
# faster way (docs/comparison.md).
export UCX_TLS=${UCX_TLS:-rc,cuda_copy}
# A pipeline's fragments would be 512 MiB of GPU memory, which 1.23 exports again and
# again where it keeps no memory types (docs/ucx-generations.md).
export UCX_RNDV_FRAG_ALLOC_COUNT=${UCX_RNDV_FRAG_ALLOC_COUNT:-host:128,cuda:4}

# 1.19 and 1.21 run some tests with CUDA IPC, where staged bytes are not counted: they
# stage pools' memory by default, and 1.19.0, which is built with assertions, aborts
# without it when a registration fails that it has counted on (rndv_rtr.c, 121).
use_cuda_ipc_on_older() {
    case ${UCX_IB_DMABUF_UCX:-} in
    */1.19.* | */1.21.*) export UCX_TLS=rc,cuda ;;
    esac
}

# Before 1.20 UCX has the receiver copy blocking sends of up to some megabytes, and asks for
# no estimate by which the plug-in could prevent that (docs/comparison.md). The tests that
# count staged bytes call this where they run on such a UCX, after use_mpi.
rendezvous_on_older() {
    case ${mpi_root:+Debian 13}${UCX_IB_DMABUF_UCX:-} in
    Debian* | */1.1[6-9].*) export UCX_RNDV_THRESH=65536 ;;
    *)                      unset UCX_RNDV_THRESH ;;
    esac
}

# Whether this UCX was built with CUDA.
has_cuda() { [ -e "$UCX_PREFIX/lib/ucx/libuct_cuda.so.0" ]; }

# What this UCX does where a registration fails after it has chosen a protocol
# (docs/ucx-generations.md): it "ends" the operation with an error, but "asks"
# cuda_copy before whether memory can be exported, from 1.22 on. The folder has the
# version's name (test/setup/ucx_wheel.sh).
export on_failure
case ${UCX_IB_DMABUF_UCX:-} in
*/1.1[6-9].* | */1.2[01].*) on_failure=ends ;;
*)                          on_failure=asks ;;
esac

# run_on_mpi PREFIX|debian|debian-mpich: that MPI, or one of Debian 13, in its root
# (test/setup/clean_root.sh); without any this system's Open MPI over the tests' UCX
# (test/lab/env).
run_on_mpi() {
    export UCX_IB_DMABUF_MPI=$1
    mpi_tests=$top_builddir/test/mpi/mpi_tests mpi_root=
    mpi_launch=(mpirun --oversubscribe -x UCX_TLS)
    case $1 in
    debian*) mpi_root=${UCX_IB_DMABUF_CLEAN_ROOT:?} UCX_IB_DMABUF_MPI=/usr ;;
    esac
    if [ "$1" = debian-mpich ] ||
       { [ -z "$mpi_root" ] && [ -n "$1" ] && [ -e "$1/bin/mpiexec.hydra" ]; }; then
        mpi_tests=$top_builddir/test/mpi/mpich/mpi_tests
        mpi_launch=(mpiexec.hydra)
    fi
}
run_on_mpi "${UCX_IB_DMABUF_MPI:-}"

# use_mpi NAME: which MPI runs what follows. Over the tests' UCX: "cuda", the Open MPI that
# test/setup/openmpi.sh builds with CUDA. As they are installed, each with its own UCX:
# Debian 13's "debian" and "debian-mpich", "openmpi-5", "mpich-5". One that is not here is
# skipped, with status 1.
use_mpi() {
    local prefix
    case $1 in
    cuda)      prefix=${UCX_IB_DMABUF_CUDA_MPI:-} ;;
    debian | debian-mpich)
               prefix=${UCX_IB_DMABUF_CLEAN_ROOT:+$1} ;;
    openmpi-5) prefix=${OPENMPI5_PREFIX:-} ;;
    mpich-5)   prefix=${MPICH_PREFIX:-} ;;
    esac
    if [ -z "$prefix" ]; then
        skip "the MPI $1" "neither configure nor quickstart named its folder"
        return 1
    fi
    run_on_mpi "$prefix"
}

# share ROOT FOLDER...: they are in the root, too, which is the lab's own copy.
share() {
    local root=$1 folder
    shift
    for folder in "$@"; do
        ! mountpoint -q "$root$folder" || continue
        mkdir -p "$root$folder"
        mount --rbind "$folder" "$root$folder"
    done
}

# share_lab ROOT [FOLDER]...: what each program needs of the lab.
share_lab() {
    share "$1" /proc /sys /dev "$mpi_work" "${@:2}"
    cp /etc/hosts "$1/etc/hosts"
}

# Each run leaves its counters here, a line of JSON per process.
forget_counters() {
    export UCX_IB_DMABUF_STATS=$mpi_work/plugin.json
    export CUDA_SIM_STATS=$mpi_work/gpu.json
    export MPI_TESTS_STATS=$mpi_work/tests.json
    rm -f "$UCX_IB_DMABUF_STATS" "$CUDA_SIM_STATS" "$MPI_TESTS_STATS"
}

# counter plugin|gpu|tests NAME: NAME is a regular expression. The sum over all
# processes of the last run, or "none" if no process said. Behind "pairs" the same is
# told once more, for each NIC and GPU.
counter() {
    sed 's/, "pairs": .*//' "$mpi_work/$1.json" 2>/dev/null |
        grep -Eo "\"$2\": *[0-9]+" |
        awk -F: '{ sum += $2 } END { print NR ? sum : "none" }'
}

# with_mpi RANKS PROGRAM [ARGUMENT]...: its output is in $mpi_output, its
# errors in $mpi_errors; returns its status.
with_mpi() {
    local ranks=$1 hosts=() OMPI_MCA_mpi_yield_when_idle=
    shift
    forget_counters
    # The folder of the sources may be a link beside the build's, or above it.
    [ -z "$mpi_root" ] ||
        share_lab "$mpi_root" "$top_builddir" "${top_srcdir%/*}" "$(realpath "$top_srcdir")"
    # Who waits lets others run: other ranks, and the kernel's threads that carry what
    # goes from one host to the other (docs/lab.md).
    [ "$ranks:$LAB_HOSTS" = 2:1 ] || export OMPI_MCA_mpi_yield_when_idle=1
    [ "$LAB_HOSTS" = 2 ] && hosts=(--host "lab-a:$((ranks / 2))"
                                   --host "lab-b:$((ranks / 2))")
    # Once more in each rank: the device is the one of the rank's host. UCX
    # would warn of the build's variables, which it takes for its own.
    "$lab_env" ${mpi_root:+chroot "$mpi_root" env -C "$PWD"} \
        "${mpi_launch[@]}" -np "$ranks" "${hosts[@]}" \
        env -u LD_PRELOAD "$lab_env" \
        env -u UCX_PREFIX "$@" \
        >"$mpi_output" 2>"$mpi_errors"
}

# plain PROGRAM [ARGUMENT]...: the same for a program without MPI.
plain() {
    forget_counters
    "$lab_env" env -u UCX_PREFIX "$@" >"$mpi_output" 2>"$mpi_errors"
}

# perftest ARGUMENT...: UCX's own benchmark, one end of it, as a job of the shell's.
perftest_port=13337
perftest() {
    exec timeout --signal=KILL 500 "$lab_env" env -u UCX_PREFIX \
        "$UCX_PREFIX/bin/ucx_perftest" -p "$perftest_port" -n 6 -w 2 -O 2 -f "$@"
}

# Both ends of it on this host; what they said is in $mpi_work/server and /client. If the
# client fails, the server, which would wait for it, is ended.
both_ends() {
    local server status=0
    forget_counters
    perftest_port=$((perftest_port + 1))
    perftest "$@" >"$mpi_work/server" 2>&1 &
    server=$!
    until grep -q "$(printf ':%04X 0\{8\}:0000 0A' $perftest_port)" /proc/net/tcp ||
          ! kill -0 $server 2>/dev/null; do sleep 0.1; done
    (perftest "$@" 127.0.0.1) >"$mpi_work/client" 2>&1 || status=$?
    [ $status = 0 ] || kill -TERM $server 2>/dev/null
    wait $server || status=$?
    return $status
}

# all_tests MEMORY SIZE:TEST...: one pair of processes runs them all; the client prints a
# line that begins with the name of each test that has ended.
all_tests() {
    local memory=$1 test
    for test in "${@:2}"; do
        echo "${test#*:}_${test%:*} -t ${test#*:} -s ${test%:*}"
    done >"$mpi_work/batch"
    both_ends -m "$memory" -b "$mpi_work/batch" -v
    verdict $? "ucx_perftest -m $memory ends well" "$mpi_work/client"
    for test in "${@:2}"; do
        grep -q "^${test#*:}_${test%:*}," "$mpi_work/client"
        verdict $? "ucx_perftest -t ${test#*:} -m $memory -s ${test%:*}" \
            "$mpi_work/server" "$mpi_work/client"
    done
}

# Algorithms of Open MPI's that send from and receive into the caller's memory only:
# others, from three ranks on, gather through memory of MPI's, which it fills with
# the CPU, or send two parts as one datatype with a hole.
choose_direct_algorithms() {
    export OMPI_MCA_coll_tuned_use_dynamic_rules=1
    export OMPI_MCA_coll_tuned_gather_algorithm=1     # linear
    export OMPI_MCA_coll_tuned_scatter_algorithm=1    # linear
    export OMPI_MCA_coll_tuned_allgather_algorithm=4  # ring
    export OMPI_MCA_coll_tuned_allgatherv_algorithm=3 # ring
}

# run_cases RANKS none|some|any GROUP...: the groups of mpi_tests, and their results.
run_cases() {
    local ranks=$1 allowed=$2 seed=${MPI_TESTS_SEED:-$RANDOM}
    shift 2
    # With CUDA IPC UCX may stage what is registered.
    case ,$UCX_TLS, in
    *,cuda,* | *,all,*) allowed=any ;;
    esac
    note "$ranks ranks, groups: $*; seed $seed (MPI_TESTS_SEED=$seed repeats it)"
    with_mpi "$ranks" "$mpi_tests" "$allowed" "$seed" "$@"
    pass_results $? mpi_tests
}

# cases NAME RANKS none|some|any "GROUP..." [SETTING]...: the same with these settings. The
# name begins that of each result that follows.
cases() {
    local groups setting
    cases_prefix="$1: "
    read -ra groups <<<"$4"
    for setting in "${@:5}"; do
        local -x "${setting?}"
    done
    run_cases "$2" "$3" "${groups[@]}"
}

# pass_results STATUS PROGRAM: the results "ok - NAME" that a program printed. It
# fails if the program ended in any other way than it should.
pass_results() {
    local line count=0 status=$1
    while IFS= read -r line; do
        case $line in
        "ok - "*)     ok "$cases_prefix${line#ok - }" ;;
        "not ok - "*) nok "$cases_prefix${line#not ok - }" ;;
        *)            echo "$line" >>"$mpi_errors" # UCX's warnings
                      continue ;;
        esac
        count=$((count + 1))
    done <"$mpi_output"
    [ "$status" -ne 99 ] || status=0 # ended with an error, as it may
    if [ "$count" -lt 2 ] || [ "$status" -ne 0 ]; then
        verdict 1 "the end: $2 has status $status" "$mpi_errors"
    fi
}

# The results that follow are about the last run.

# expect_count plugin|gpu|tests COUNTER OPERATOR NUMBER, e.g. hits -gt 0
expect_count() {
    local value
    value=$(counter "$1" "$2")
    test "$value" "$3" "$4"
    verdict $? "$2 $3 $4 ($value)" "$mpi_work/$1.json"
}

# Nothing was printed but results.
expect_silence() {
    test ! -s "$mpi_errors"
    verdict $? "nothing else is printed" "$mpi_errors"
}

# expect_warnings COUNT PATTERN: so many lines that match in all, and no others.
expect_warnings() {
    local count others
    count=$(grep -Ec -- "$2" "$mpi_errors")
    others=$(grep -Evc -- "$2" "$mpi_errors")
    test "$count:$others" = "$1:0"
    verdict $? "$1 warnings ($count, and $others other lines)" "$mpi_errors"
}

# expect_end RANKS CAUSE GROUP...: the job ends with an error, as a registration
# failed and nothing takes its place; cause and consequence are told before that,
# once by each rank that got there, and no byte is wrong.
expect_end() {
    local ranks=$1 cause=$2 status told others
    with_mpi "$ranks" "$mpi_tests" any 1 "${@:3}"
    status=$?
    told=$(grep -Ec -- "$cause" "$mpi_output")
    others=$(grep -Ec -- 'ib_dmabuf: .* cannot be staged: ' "$mpi_output")
    [ $status -ne 0 ] && [ "$told" -ge 1 ] && [ "$told" -le "$ranks" ] &&
        [ "$others" -ge 1 ] && [ "$others" -le "$ranks" ] &&
        ! grep -q '^not ok' "$mpi_output"
    verdict $? "the job ends (status $status), with the cause" "$mpi_output" "$mpi_errors"
}

# ends_by_itself RANKS GROUP: a group of mpi_tests. Without the plug-in the job ends, as
# the CPU touches a GPU's memory. With the plug-in it ends as well, without wrong bytes.
ends_by_itself() {
    local with status
    local -x OMPI_MCA_odls_base_sigkill_timeout=0 # the other ranks need no second to end
    for with in n y; do
        UCX_IB_DMABUF_PLUGIN=$with with_mpi "$1" "$mpi_tests" any 1 "$2"
        status=$?
        [ $status -ne 0 ] && ! grep -q '^not ok' "$mpi_output" &&
            grep -aqE 'Segmentation fault|signal 11' "$mpi_output" "$mpi_errors"
        verdict $? "$2 ends the job (status $status), plug-in: $with" \
            "$mpi_output" "$mpi_errors"
    done
}

# The system's: one that is not at fixed addresses has libraries below it in the lab,
# which OpenSHMEM takes for the program's own data.
mpi_python=/usr/bin/python3.11

# use_python FOLDER MODULE: a Python of the version that the wheels are for, with that
# module in the folder; skips the script where either is missing.
use_python() {
    if [ ! -x "$mpi_python" ] || { [ ! -e "$1/$2" ] && [ ! -e "$1/$2.py" ]; }; then
        skip "$2" "there is no $mpi_python, or the module is not in '$1'"
        done_testing
    fi
    export PYTHONPATH=$1:$top_srcdir/test/common PYTHONDONTWRITEBYTECODE=1
}

# run_python RANKS PROGRAM [ARGUMENT]...: a program of this folder, which prints
# results as mpi_tests does. It is given the seed first.
run_python() {
    local ranks=$1 program=$2 seed=${MPI_TESTS_SEED:-$RANDOM}
    shift 2
    note "$ranks ranks of $program $*; seed $seed (MPI_TESTS_SEED=$seed repeats it)"
    with_mpi "$ranks" "$mpi_python" "$top_srcdir/test/mpi/$program" "$seed" "$@"
    pass_results $? "$program"
}

# two_sides COMMAND...: the command as "server" on host A and as "client" on B, which meet
# in a folder; both are given that and the seed. The last line of each says how much it copied,
# and how much was in messages so small that UCX may copy them. status: the
# higher one, so that a signal shows.
two_sides() {
    local server
    forget_counters
    rm -rf "$mpi_work/meet"
    mkdir "$mpi_work/meet"
    side A server "$@" &
    server=$!
    side B client "$@"
    status=$?
    wait $server || status=$(($? > status ? $? : status))
    return "$status"
}

# side HOST NAME COMMAND...: one of the two; its output is in $mpi_work/NAME.
side() {
    in-host "$1" "$lab_env" env -u UCX_PREFIX "${@:3}" "$2" "$mpi_work/meet" "$seed" \
        >"$mpi_work/$2" 2>&1
}

# staged OPERATOR NUMBER: of the bytes that UCX had the GPU copy for the two sides, without
# those of small messages.
staged() {
    local own staged
    own=$(awk '/ copied / { sum += $NF + $(NF - 2) } END { print sum }' \
              "$mpi_work/server" "$mpi_work/client")
    staged=$(($(counter gpu copied) - own))
    test "$staged" "$1" "$2"
    verdict $? "staged $1 $2 ($staged)" "$mpi_work/gpu.json"
}
