# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the sanitizers' scripts: build the unit tests and the simulated
# GPU once more, with a sanitizer, and run them. UCX itself is not built with
# it.
# shellcheck shell=bash

. "$top_srcdir/test/tap/tap.sh"

# Of the make that runs this.
unset MAKEFLAGS MFLAGS MAKELEVEL

# What is built stays, for the next run.
build=$top_builddir/test/sanitize/build-$(basename "$0" .tap)
# shellcheck disable=SC2034 # for those who source this
suppressions=$top_srcdir/test/sanitize

# build_tests SANITIZERS: stops the script if it fails. Lines (-g1) are all that
# their reports have of debug information.
build_tests() {
    local arguments=("--with-ucx=$UCX_PREFIX"
                     "--with-cuda=$CUDA_DIR" "--enable-sanitizer=$1"
                     CFLAGS='-g1 -O1' CXXFLAGS='-g1 -O1')
    mkdir -p "$build"
    if ! {
        { [ "$build/config.status" -nt "$top_srcdir/configure" ] ||
            (cd "$build" &&
                "$top_srcdir/configure" --quiet "${arguments[@]}"); } &&
            xargs make -C "$build" cuda-sim <<<"$UNIT_TESTS"
    } >"$build/log" 2>&1 </dev/null; then
        note "$(tail -n 40 "$build/log")"
        echo "Bail out! the build with -fsanitize=$1 failed: $build/log"
        exit 1
    fi
}

# run_tests COMMAND...: each unit test started by that; one result each, also where
# it hangs.
run_tests() {
    local test output status
    [ -n "$UNIT_TESTS" ] || echo "Bail out! there are no unit tests"
    for test in $UNIT_TESTS; do
        output=$(cd "$build" && ulimit -c 0 &&
            limited "$@" "$test" --gtest_color=no --gtest_brief=1 2>&1 </dev/null)
        status=$?
        if [ $status = 0 ] && [[ "$output" == *"[  PASSED  ]"* ]]; then
            ok "$test"
        else
            nok "$test"
            note "status $status"
        fi
        note "$(tail -n 80 <<<"$output")"
    done
}

# The sanitized simulated GPU comes before the other. UCX's hooks of memory
# calls and the sanitizers' own do not get along.
export LD_LIBRARY_PATH=$build/test/cuda_sim/lib:$LD_LIBRARY_PATH
export CUDA_SIM_LIBDIR=$build/test/cuda_sim/lib
export top_builddir=$build
export UCX_MEM_MMAP_HOOK_MODE=none
