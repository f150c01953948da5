#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Get Debian's newest kernel source that our patches apply to and build it once: in user
# mode, or with --arm64 for that architecture, with pages of 64 KiB. Prints the path of
# the kernel. With --built it builds none, and fails where there is none.
# usage: kernel.sh [--built | --arm64]
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

lab=$TOP_DIR/test/lab/kernel
kernels=$CACHE_DIR/kernel image=linux minutes=4
config=("$lab/config.fragment")
architecture=(ARCH=um) compiler=gcc
if [ "${1:-}" = --arm64 ]; then
    kernels=$CACHE_DIR/kernel-arm64 image=Image minutes=10
    config+=("$lab/arm64.fragment")
    architecture=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-) compiler=aarch64-linux-gnu-gcc
fi
# The number: raise it when this script comes to make another kernel.
id=$(key "1 $($compiler -dumpfullversion)" "${config[@]}" "$lab"/patches/*.patch)
dir=$kernels/$id
downloads=$CACHE_DIR/kernel/download
log=$CACHE_DIR/log/kernel-$id.log

# All linux-source-N.M from 7.2 up that sid has, newest first.
candidates() {
    apt-cache search --names-only '^linux-source-[0-9]+\.[0-9]+$' \
        2>>"$log" |
        awk '{ sub("linux-source-", "", $1); print $1 }' | sort -rV |
        awk -F. '$1 > 7 || ($1 == 7 && $2 >= 2)'
}

# patched_source PACKAGE: fails if a patch does not apply.
patched_source() {
    local patch
    rm -rf source unpacked
    quietly "$log" dpkg-deb --extract "$1" unpacked
    mkdir source
    quietly "$log" tar -C source --strip-components=1 -xf \
        unpacked/usr/src/linux-source-*.tar.xz
    rm -rf unpacked
    for patch in "$lab"/patches/*.patch; do
        if ! patch -d source -p1 --forward <"$patch" >>"$log" 2>&1; then
            say "kernel: ${patch##*/} does not apply to ${1##*/}"
            return 1
        fi
    done
    basename "$1" _all.deb >version
}

download() {
    local apt=$CACHE_DIR/apt/sid version
    apt_for sid deb "$apt"
    export APT_CONFIG=$apt/apt.conf
    say "kernel: reading the package list of sid"
    quietly "$log" apt-get update
    for version in $(candidates); do
        say "kernel: downloading linux-source-$version"
        (cd "$downloads" &&
            quietly "$log" apt-get download "linux-source-$version") || exit
        patched_source "$(newest "$downloads/linux-source-$version"_*.deb)" &&
            return
    done
    fail "no linux-source of sid from 7.2 up takes our patches; see $log"
}

newest() { printf '%s\n' "$@" | sort -V | tail -n 1; }

# What was downloaded before will do, also without a network.
get_source() {
    local package
    mkdir -p "$downloads"
    package=$(newest "$downloads"/linux-source-*.deb)
    { [ -e "$package" ] && patched_source "$package"; } || download
    unset APT_CONFIG
}

build() {
    [ ! -e "$dir/$image" ] || return 0 # while we waited for the lock
    mkdir -p "$dir"
    cd "$dir"
    get_source
    say "kernel: building $(cat version), $image, about $minutes minutes on two cores"
    rm -rf build
    local make=(make -C source "${architecture[@]}" "O=$dir/build")
    cat "${config[@]}" >config
    quietly "$log" env KCONFIG_ALLCONFIG="$dir/config" \
        "${make[@]}" allnoconfig
    if [ $image = linux ]; then
        quietly "$log" "${make[@]}" -j"$(nproc)"
        strip -o partial build/linux
    else
        quietly "$log" "${make[@]}" -j"$(nproc)" $image
        mv build/arch/arm64/boot/$image partial
    fi
    mv partial $image
    rm -rf source build
}

[ -e "$dir/$image" ] || [ "${1:-}" != --built ] || exit 1
[ -e "$dir/$image" ] || with_lock kernel build
forget_others '*'
echo "$dir/$image"
