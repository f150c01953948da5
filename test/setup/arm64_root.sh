#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Unpack what a cross compiler and qemu need of this Debian for arm64: headers, libraries,
# and the programs that tests in the lab call. Prints the folder.
# usage: arm64_root.sh
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

packages=libibverbs-dev,librdmacm-dev,libnuma-dev,libgtest-dev,ibverbs-providers,libstdc++6
packages+=,bash,coreutils,dash,diffutils,findutils,grep,hostname,libc-bin,mawk,mount,perl-base,procps
packages+=,sed,util-linux,ibverbs-utils,iproute2,libopenmpi-dev,openmpi-bin
suite=$(sed -n "s/^VERSION_CODENAME=//p" /etc/os-release)
# The number: raise it when this script comes to make another one.
dir=$CACHE_DIR/arm64-root/$(key "2 $suite $packages" /dev/null)
log=$CACHE_DIR/log/arm64-root.log

unpack() {
    make_arm64_root "$suite" "$packages"
    ln -s /usr/include/nlohmann "$dir/root/usr/include/" # the same for all
    # What a system mounts at.
    mkdir -p "$dir/root/mnt"
    # A program under qemu would find these, empty, in place of this machine's.
    (cd "$dir/root" && rm -r boot dev home proc root run sys tmp)
    ln -s mawk "$dir/root/usr/bin/awk"
}

make_once arm64-root unpack
echo "$dir/root"
