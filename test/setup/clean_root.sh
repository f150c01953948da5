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

make_root() {
    local sources=$dir/sources
    mkdir "$sources"
    [ "$(id -u)" = 0 ] || fail "a root of Debian is made as root only"
    apt_for trixie deb "$sources"
    say "a root with $packages: making it"
    # Documentation has no part in it.
    # What it mounts there ends with it, whatever ends it.
    quietly "$log" unshare --mount mmdebstrap --variant=minbase --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --format=directory trixie "$dir/root" "$sources/sources.list"
}

make_once clean-root make_root
echo "$dir/root"
