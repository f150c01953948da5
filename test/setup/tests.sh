#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Run the tests of a build folder in two lanes beside each other: those of the lab,
# of which a machine has one, and the rest. All is built before, and what else
# tests are told is in the environment. The last line is
# "N passed, N failed, N skipped".
# usage: tests.sh BUILD "VERSION..." [TEST]...
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

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

# The results that make prints when all tests have ended.
total() { awk -v name="# $1:" 'index($0, name) == 1 { sum += $3 }
                               END { print sum + 0 }' "$results"; }

# A failed test's own words: around what failed, or the end.
show_failures() {
    local test
    grep -E '^(FAIL|XPASS|ERROR): ' "$results" |
        awk '{ print $2 }' | sort -u |
        while read -r test; do
            test=$build/${test%.tap}
            printf '\n---- %s\n' "${test#"$build"/}"
            grep -E -A 12 '^(not ok|Bail out)' "${test%.lab}.log" | head -n 60 || :
            echo '---- its last lines'
            tail -n 20 "${test%.lab}.log" || :
        done
    printf '\nFailed on UCX %s:\n' "$version"
    grep -E '^(FAIL|XPASS|ERROR): ' "$results"
}

# run_make TESTS: a log of the suite for each lane, as both run in one folder.
run_make() {
    make --no-print-directory -C "$build" -j"$jobs" check "TESTS=$1" \
        TEST_SUITE_LOG="test-suite-$lane.log" \
        ${only_programs:+"check_PROGRAMS=$only_programs"} 2>&1 |
        tee "$results" |
        grep --line-buffered -E '^(PASS|FAIL|XFAIL|XPASS|SKIP|ERROR): '
}

# check_on VERSION TESTS: a line for the counts. What is to be said of failures
# waits for the end, so that no other lane's lines are in it.
check_on() {
    local version=$1 status=0 good bad omitted
    UCX_IB_DMABUF_UCX=
    [ "$version" = "$BASE_UCX" ] ||
        UCX_IB_DMABUF_UCX=$("$SETUP_DIR/ucx_wheel.sh" "$version") || exit
    export UCX_IB_DMABUF_UCX
    say "UCX $version: running the tests of the lane '$lane'; their logs are in $build"
    # A trap waits for what is not in the background.
    run_make "$2" &
    wait $! || status=$?

    good=$(($(total PASS) + $(total XFAIL)))
    bad=$(($(total FAIL) + $(total XPASS) + $(total ERROR)))
    omitted=$(total SKIP)
    if ((bad > 0)); then
        show_failures >>"$failures" 2>&1
    elif ((status != 0 || good + omitted == 0)); then
        {
            tail -n 30 "$results"
            echo "ERROR: UCX $version: the tests of the lane '$lane' did not run to their end"
        } >>"$failures"
        bad=1
    elif ((good == 0)); then
        say "UCX $version: all tests of the lane '$lane' were skipped"
    fi
    say "UCX $version, $lane: $good passed, $bad failed, $omitted skipped"
    echo "$good $bad $omitted" >>"$counts"
}

name_files() {
    results=$build/results-$lane counts=$build/counts-$lane
    failures=$build/failures-$lane
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
    echo end >>"$counts"
}

# start_lane LANE JOBS [TEST]...
start_lane() {
    lane=$1
    name_files
    rm -f "$results" "$counts" "$failures"
    set -m
    setpriv --pdeathsig TERM "$0" --lane "$lane" "$2" "$build" "$versions" \
        "${@:3}" </dev/null 8>&- &
    set +m
    lanes[$!]=$lane
}

# shellcheck disable=SC2317 # called by the traps
end_lanes() {
    local leader
    for leader in "${!lanes[@]}"; do
        kill -TERM -- "-$leader" 2>/dev/null || :
    done
    wait
}

# finish_lane LANE: adds to passed, failed and skipped.
finish_lane() {
    local good bad omitted
    lane=$1
    name_files
    [ ! -e "$failures" ] || cat "$failures"
    [ -e "$counts" ] && grep -qx end "$counts" || {
        echo "ERROR: the lane '$lane' of tests died"
        failed=$((failed + 1))
    }
    while read -r good bad omitted; do
        [ "$good" != end ] || continue
        passed=$((passed + good)) failed=$((failed + bad))
        skipped=$((skipped + omitted))
    done < <(cat "$counts" 2>/dev/null)
}

# run_lanes [TEST]...: the lab has two processors' work by itself, at times.
run_lanes() {
    local passed=0 failed=0 skipped=0 leader
    declare -A lanes
    trap end_lanes EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    start_lane lab 1 "$@"
    start_lane rest "$((($(nproc) + 1) / 2))" "$@"
    for leader in "${!lanes[@]}"; do
        wait "$leader" || :
    done
    lanes=()
    finish_lane lab
    finish_lane rest
    ((passed + failed + skipped > 0)) || {
        echo "ERROR: there was no test to run"
        failed=1
    }
    same_plugin
    echo "$passed passed, $failed failed, $skipped skipped"
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
    lane=$2 jobs=$3 build=$4 versions=$5
    name_files
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
