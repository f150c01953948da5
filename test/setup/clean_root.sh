#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Make a root of Debian 13 with nothing but its base, what the packages of Open MPI and
# MPICH bring, UCX 1.18.1 among it, and libibverbs' drivers. Prints the folder.
# usage: clean_root.sh
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

packages=openmpi-bin,mpich,ibverbs-providers
# The number: raise it when this script comes to make another one.
dir=$CACHE_DIR/clean-root/$(key "2 $packages" /dev/null)
log=$CACHE_DIR/log/clean-root.log

# Documentation has no part in it.
unpack() {
    make_root trixie "$packages" --variant=minbase \
        --dpkgopt='path-exclude=/usr/share/'{doc,man,locale}'/*'
}

make_once clean-root unpack
echo "$dir/root"
