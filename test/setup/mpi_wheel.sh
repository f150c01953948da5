#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Get an MPI that "pip install" would install, and lay it out as that would:
# unchanged, with its own UCX in it, which takes the system's libibverbs. Or mpi4py, which
# finds the MPI by itself, or UCXX, for Debian 12's Python. Prints the prefix.
# usage: mpi_wheel.sh NAME
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

table=$SETUP_DIR/mpi_wheels
names=$(awk '!/^#/ { print $1 }' "$table" | uniq)
name=${1:-}
grep -qxF -- "$name" <<<"$names" ||
    fail "usage: mpi_wheel.sh NAME, one of" "${names//$'\n'/ }"

wheels=$(awk -v name="$name" '$1 == name { print $2, $3 }' "$table")
# The number: raise it when this script comes to lay it out in another way.
dir=$CACHE_DIR/mpi-wheel/$name-$(key "1 $wheels" /dev/null)
log=$CACHE_DIR/log/mpi-wheel-$name.log

lay_out() {
    local requirement sum wheel
    while read -r requirement sum; do
        get_wheel "$requirement" "$sum" "$name" "$table" "$log"
        quietly "$log" python3 -m zipfile -e "$wheel" wheel
    done <<<"$wheels"
    mv wheel/*.data/data prefix 2>/dev/null || mv wheel prefix # of Python only
    [ ! -d prefix/bin ] || chmod +x prefix/bin/* # which zipfile does not
    rm -rf wheel
}

make_once ucx-wheel lay_out "$name-*" # who downloads to the same folder
echo "$dir/prefix"
