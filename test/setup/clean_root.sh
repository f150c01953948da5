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
    [ ! -e "$dir/complete" ] || return 0 # while we waited for the lock
    rm -rf --one-file-system "$dir"
    mkdir -p "$sources"
    apt_for trixie deb "$sources"
    say "a root with $packages: making it"
    # Documentation has no part in it.
    # What it mounts there ends with it, whatever ends it.
    quietly "$log" unshare --mount mmdebstrap --variant=minbase --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --format=directory trixie "$dir/root" "$sources/sources.list"
    touch "$dir/complete"
}

[ -e "$dir/complete" ] || {
    "$SETUP_DIR/packages.sh" >&2 # mmdebstrap
    [ "$(id -u)" = 0 ] || fail "a root of Debian is made as root only"
    with_lock clean-root make_root
}
touch "$dir"
find "$CACHE_DIR/clean-root" -mindepth 1 -maxdepth 1 ! -name "${dir##*/}" \
     -mtime +7 -exec rm -rf --one-file-system {} +
echo "$dir/root"
