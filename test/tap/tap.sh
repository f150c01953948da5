# SPDX-License-Identifier: BSD-3-Clause
# Sourced by test scripts: results in TAP.
# shellcheck shell=bash

# A test may run make. That make is not part of the one that runs the test.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

: "${TEST_LIMIT:=900}" # seconds, after which a program of tests hangs and is ended

tap_count=0
tap_failed=0

# limited COMMAND...: ends it after TEST_LIMIT, and with who runs it: timeout(1) begins a group of
# processes, which a signal to that of the caller does not reach.
limited() {
    setpriv --pdeathsig TERM timeout --signal=ABRT --kill-after=10 "$TEST_LIMIT" "$@"
}

ok()   { tap_count=$((tap_count + 1)); echo "ok $tap_count - $*"; }
nok()  { tap_count=$((tap_count + 1)); tap_failed=1; echo "not ok $tap_count - $*"; }
skip() { tap_count=$((tap_count + 1)); echo "ok $tap_count - $1 # SKIP $2"; }
note() { printf '%s\n' "$*" | sed 's/^/# /'; }

# check NAME COMMAND...: passes if the command does; its output is shown if not.
check() {
    local name=$1 output status
    shift
    output=$("$@" 2>&1)
    status=$?
    if [ $status = 0 ]; then
        ok "$name"
    else
        nok "$name"
        note "status $status of: $*"
        note "$output"
    fi
}

# expect NAME PATTERN TEXT: passes if the text has a line that matches.
expect() {
    if grep -Eq -- "$2" <<<"$3"; then
        ok "$1"
    else
        nok "$1"
        note "no line matches: $2"
        note "$3"
    fi
}

# is NAME WANTED FOUND: passes if they are the same; how their lines differ is shown if
# not.
is() {
    if [ "$2" = "$3" ]; then
        ok "$1"
    else
        nok "$1"
        note "$(diff <(echo "$2") <(echo "$3"))"
    fi
}

# make_scratch: sets "scratch" to a new folder, which is removed when the test ends.
make_scratch() {
    scratch=$(mktemp -d) || exit 1
    trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
}

# install_in_scratch PREFIX: "make install" into $scratch/root.
install_in_scratch() {
    check "make install" make -s -C "$top_builddir" install DESTDIR="$scratch/root" prefix="$1"
}

# skip_all WHY: before the first result; ends the test.
skip_all() { echo "1..0 # SKIP $1"; exit 0; }

# need_lab: exports UCX_IB_DMABUF_KERNEL, the lab's; skips all where none was built.
need_lab() {
    UCX_IB_DMABUF_KERNEL=${UCX_IB_DMABUF_KERNEL:-$("$top_srcdir/test/setup/kernel.sh" --built)} ||
        skip_all "there is no kernel for the lab: ./quickstart check builds it"
    export UCX_IB_DMABUF_KERNEL
}

# need_arm64: sets "on", which runs the program behind it as one for arm64; skips all where
# there is no UCX for it.
need_arm64() {
    [ -n "${UCX_IB_DMABUF_ARM64_UCX:-}" ] ||
        skip_all "there is no UCX for arm64: ./quickstart check gets it, as root"
    export QEMU_LD_PREFIX=$UCX_IB_DMABUF_ARM64_ROOT
    # shellcheck disable=SC2034 # for the script
    on=("$top_srcdir/test/arm64/emulate")
}

done_testing() { echo "1..$tap_count"; exit "$tap_failed"; }
