#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Run the tests of a build folder in two lanes beside each other: those of the lab,
# of which a machine has one, and the rest. All is built before, and what else
# tests are told is in the environment. The last lines count each reason of a skip, and
# "N passed, N failed, N skipped".
# usage: tests.sh BUILD "VERSION..." [TEST]...
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

failure='^(FAIL|XPASS|ERROR): '

# tests_for VERSION: those that test/setup/ucx_tests has; all, on the tests' base.
tests_for() {
    # shellcheck disable=SC2016 # make expands these
    case $1,$lane in
    "$BASE_UCX",lab)  echo '$(LAB_TESTS) $(LAB_TAP_TESTS)' ;; # all that wait for the lab
    "$BASE_UCX",rest) echo '$(UNIT_TESTS) $(TAP_TESTS)' ;;
    *)  awk -v version="$1" \
            '!/^#/ && index(" " $0 " ", " " version " ") { print $1 }' \
            "$SETUP_DIR/ucx_tests" | of_lane ;;
    esac
}

# Those of this lane's, in a line.
of_lane() {
    awk -v lane="$lane" '(lane == "lab") == /\.lab$/' | paste -sd ' '
}

# A failed test's own words: around what failed, or the end.
show_failures() {
    local test
    grep -E "$failure" "$now" | awk '{ print $2 }' | sort -u |
        while read -r test; do
            test=$build/${test%.tap}
            printf '\n---- %s\n' "${test#"$build"/}"
            grep -E -A 12 '^(not ok|Bail out)' "${test%.lab}.log" | head -n 60 || :
            echo '---- its last lines'
            tail -n 20 "${test%.lab}.log" || :
        done
    printf '\nFailed on UCX %s:\n' "$version"
    grep -E "$failure" "$now"
}

# run_make TESTS: a log of the suite for each lane, as both run in one folder.
run_make() {
    make --no-print-directory -C "$build" -j"$jobs" check "TESTS=$1" \
        TEST_SUITE_LOG="test-suite-$lane.log" \
        ${only_programs:+"check_PROGRAMS=$only_programs"} 2>&1 |
        tee "$now" |
        grep --line-buffered -E "^(PASS|XFAIL|SKIP): |$failure"
}

# check_on VERSION TESTS. Failures are shown at the end, without another lane's lines.
check_on() {
    local version=$1 status=0 now=$results.now
    UCX_IB_DMABUF_UCX=
    [ "$version" = "$BASE_UCX" ] ||
        UCX_IB_DMABUF_UCX=$("$SETUP_DIR/ucx_wheel.sh" "$version") || exit
    export UCX_IB_DMABUF_UCX
    say "UCX $version: running the tests of the lane '$lane'; their logs are in $build"
    # A trap waits for what is not in the background.
    run_make "$2" &
    wait $! || status=$?
    if grep -qE "$failure" "$now"; then
        show_failures >>"$results.failures" 2>&1
    elif ((status != 0)); then
        tail -n 30 "$now" >>"$results.failures"
        echo "ERROR: UCX $version: the tests of the lane '$lane' did not run to their end" |
            tee -a "$now" >>"$results.failures"
    fi
    cat "$now" >>"$results"
}

# run_lane [TEST]...: what it starts ends with it, as all of it is in one group.
run_lane() {
    local version tests
    trap 'trap "" TERM; kill -TERM 0; exit 143' TERM
    for version in $versions; do
        if [ $# -gt 0 ]; then
            tests=$(printf '%s\n' "$@" | of_lane)
        else
            tests=$(tests_for "$version")
        fi
        [ -z "$tests" ] || check_on "$version" "$tests"
    done
}

# start_lane LANE JOBS [TEST]...
start_lane() {
    rm -f "$build/results-$1"*
    set -m
    setpriv --pdeathsig TERM "$0" --lane "$1" "$2" "$build" "$versions" \
        "${@:3}" </dev/null 8>&- &
    set +m
    lanes[$!]=$1
}

# shellcheck disable=SC2317 # called by the traps
end_lanes() {
    local leader
    for leader in "${!lanes[@]}"; do
        kill -TERM -- "-$leader" 2>/dev/null || :
    done
    wait
}

# Of both lanes.
results() { cat "$build"/results-{lab,rest} 2>/dev/null || :; }
count() { results | grep -cE "$1" || :; }

# run_lanes [TEST]...: the lab has two processors' work by itself, at times.
run_lanes() {
    local leader lane failed
    declare -A lanes
    trap end_lanes EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    start_lane lab 1 "$@"
    start_lane rest "$((($(nproc) + 1) / 2))" "$@"
    for leader in "${!lanes[@]}"; do
        lane=$build/results-${lanes[$leader]}
        wait "$leader" || echo "ERROR: the lane '${lanes[$leader]}' of tests died" |
            tee -a "$lane" >>"$lane.failures"
    done
    lanes=()
    cat "$build"/results-*.failures 2>/dev/null || :
    failed=$(count "$failure")
    [ "$failed$(count '^[A-Z]+: ')" != 00 ] || {
        echo "ERROR: there was no test to run"
        failed=1
    }
    same_plugin
    results | sed -nE 's/^SKIP: [^ ]+ ([0-9]+ - .*# SKIP|-)? */skipped: /p' |
        sort | uniq -c
    echo "$(count '^(PASS|XFAIL): ') passed, $failed failed, $(count '^SKIP: ') skipped"
    ((failed == 0))
}

# One binary serves every UCX.
same_plugin() {
    [ "$(sha256sum <"$plugin")" = "$sum" ] ||
        fail "the plug-in changed while it was tested: $plugin"
    [ "$versions" = "$BASE_UCX" ] ||
        say "the plug-in's SHA-256 on each: ${sum%% *}"
}

if [ "$1" = --lane ]; then
    lane=$2 jobs=$3 build=$4 versions=$5 results=$4/results-$2
    run_lane "${@:6}"
else
    build=$1 versions=$2
    export UCX_IB_DMABUF_CACHE=$CACHE_DIR # what passes test/style is noted there
    # UCX 1.23 waits 50 ms for each function that it hooks, 1.2 s in each process;
    # messages.lab does as it does for users.
    export UCX_MEM_BISTRO_GRACE_DURATION=1ms
    plugin=$build/.libs/libuct_ib_dmabuf.so.0.0.0
    sum=$(sha256sum <"$plugin")
    run_lanes "${@:3}"
fi
