# SPDX-License-Identifier: BSD-3-Clause
# Sourced by commands that take figures in the lab and make a table of them outside.
# shellcheck shell=bash disable=SC2154 # the environment

# take_figures TIMEOUT: runs the command in the lab, with --inside. What that wrote to $LAB_OUT
# is in $out then.
take_figures() {
    local first=()
    : "${top_builddir:?run this with ./quickstart "${0##*/}"}"
    out=$(mktemp -d) || exit 1
    trap 'rm -rf "$out"' EXIT
    : >"$out/records"
    echo "booting the lab: a Linux kernel with soft-RoCE, in user mode" >&2
    # Ahead of whatever else the machine does, where that is allowed: the figures
    # are the better for it.
    nice -n -10 true 2>/dev/null && first=(nice -n -10)
    "${first[@]}" "$top_srcdir/test/lab/lab" run --timeout "$1" --out "$out" -- \
        "$0" --inside || exit
}
