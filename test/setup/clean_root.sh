#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Make a root of Debian 13 with nothing but its base, what the packages of Open MPI and
# MPICH bring, UCX 1.18.1 among it, and libibverbs' drivers. Prints the folder. For arm64 it has
# Open MPI only.
# usage: clean_root.sh [arm64]
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

packages=openmpi-bin,mpich,ibverbs-providers
name=clean-root
# Documentation has no part in it.
unpack() {
    make_root trixie "$packages" --variant=minbase \
        --dpkgopt='path-exclude=/usr/share/'{doc,man,locale}'/*'
}
if [ "${1:-}" = arm64 ]; then
    packages=openmpi-bin,libstdc++6,ibverbs-providers
    packages+=,bash,coreutils,dash,hostname,libc-bin
    name=clean-root-arm64
    unpack() { make_arm64_root trixie "$packages"; }
fi
# The number: raise it when this script comes to make another one.
dir=$CACHE_DIR/$name/$(key "2 $packages" /dev/null)
log=$CACHE_DIR/log/$name.log

make_once $name unpack
echo "$dir/root"
