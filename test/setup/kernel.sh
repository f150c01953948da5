#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Get Debian's newest kernel source that our patches apply to and build it in
# user mode, once. Prints the path of the kernel.
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

lab=$TOP_DIR/test/lab/kernel
id=$(key "$(gcc -dumpfullversion)" "$0" \
         "$lab/config.fragment" "$lab"/patches/*.patch)
dir=$CACHE_DIR/kernel/$id
log=$CACHE_DIR/log/kernel-$id.log

# All linux-source-N.M from 7.2 up that sid has, newest first.
candidates() {
    apt-cache search --names-only '^linux-source-[0-9]+\.[0-9]+$' \
        2>>"$log" |
        awk '{ sub("linux-source-", "", $1); print $1 }' | sort -rV |
        awk -F. '$1 > 7 || ($1 == 7 && $2 >= 2)'
}

patched_source() {
    local version=$1 patch
    rm -rf source unpacked
    quietly "$log" dpkg-deb --extract linux-source-"$version"_*.deb unpacked
    mkdir source
    quietly "$log" tar -C source --strip-components=1 -xf \
        unpacked/usr/src/linux-source-*.tar.xz
    for patch in "$lab"/patches/*.patch; do
        if ! patch -d source -p1 --forward <"$patch" >>"$log" 2>&1; then
            say "kernel $version: ${patch##*/} does not apply"
            return 1
        fi
    done
}

get_source() {
    local apt=$CACHE_DIR/apt/sid version
    apt_for sid deb "$apt"
    export APT_CONFIG=$apt/apt.conf
    say "kernel: reading the package list of sid"
    quietly "$log" apt-get update
    for version in $(candidates); do
        say "kernel: downloading linux-source-$version"
        ls linux-source-"$version"_*.deb >/dev/null 2>&1 ||
            quietly "$log" apt-get download "linux-source-$version"
        patched_source "$version" && {
            unset APT_CONFIG
            set -- linux-source-"$version"_*.deb
            echo "${1%_all.deb}" >version
            return
        }
    done
    fail "no linux-source of sid from 7.2 up takes our patches; see $log"
}

build() {
    [ -e "$dir/linux" ] && return
    mkdir -p "$dir"
    cd "$dir"
    get_source
    say "kernel: building $(cat version), about 4 minutes on two cores"
    rm -rf build
    local make=(make -C source ARCH=um "O=$dir/build")
    quietly "$log" env KCONFIG_ALLCONFIG="$lab/config.fragment" \
        "${make[@]}" allnoconfig
    quietly "$log" "${make[@]}" -j"$(nproc)"
    strip -o linux.partial build/linux
    mv linux.partial linux
    rm -rf source unpacked build
}

with_lock kernel build
echo "$dir/linux"
