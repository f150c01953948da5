#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Get mpi4py, as pip would install it for Debian 12's Python; it finds the MPI by
# itself. Prints the folder to put into PYTHONPATH.
# usage: mpi4py.sh
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=test/setup/wheels.sh
. "$SETUP_DIR/wheels.sh"

# shellcheck disable=SC2034 # what get_wheel says a wheel is named in
table=$0
requirement=mpi4py==4.1.2
sum=de484475b80f9e1ffe98cb85e1b776eb9f42bb73ae4d79449d42953f80025bf4
dir=$CACHE_DIR/mpi4py/$(key "1 $requirement $sum" /dev/null)
log=$CACHE_DIR/log/mpi4py.log

unpack() {
    local wheel
    get_wheel "$requirement" "$sum" mpi4py
    quietly "$log" python3 -m zipfile -e "$wheel" .
}

make_once ucx-wheel unpack # who downloads to the same folder
echo "$dir"
