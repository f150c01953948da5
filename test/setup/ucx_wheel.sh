#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Get a UCX that somebody else built, out of Python wheels, and lay it out as an
# installed one: what is linked with libucp.so.0 runs on it, unchanged. Nothing
# is installed. Prints the prefix.
# usage: ucx_wheel.sh VERSION
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

table=$SETUP_DIR/ucx_wheels

# What the table says of VERSION; all that it says, without one.
rows() {
    awk -v version="${1:-}" '/^[0-9a]/ && (version == "" || $1 == version)' \
        "$table"
}

version=${1:-}
wheels=$(rows "$version")
[ -n "$version" ] && [ -n "$wheels" ] ||
    fail "usage: ucx_wheel.sh VERSION, one of" \
         "$(rows | awk '{ print $1 }' | uniq | paste -sd ' ')"

# The compiler of the architecture, for which its libraries are found.
machine=x86_64
compile=(gcc)
if [[ $version == aarch64-* ]]; then
    machine=aarch64
    compile=(aarch64-linux-gnu-gcc --sysroot="$("$SETUP_DIR/arm64_root.sh")")
fi

# The number: raise it when this script comes to lay it out in another way.
id=$(key "3 $wheels${compile[1]:-}" /dev/null)
dir=$CACHE_DIR/ucx-wheel/$version-$id
log=$CACHE_DIR/log/ucx-wheel-$version.log

# Programs want lib*.so.0. UCX opens modules with the suffix that its own
# libucs was found by, which may be that or the wheel's .so.0.0.0.
link_libraries() {
    local file name
    rm -f lib/ucx/*.{la,so} # copies of the same
    for file in lib/libuc[mpst]-*.so.* lib/ucx/*.so.0.0.0; do
        [ -e "$file" ] || continue
        name=${file%.so.*}
        ln -sf "$(basename "$file")" "${name%-*}.so.0"
    done
}

# What programs are linked with: the libraries' symbols under their usual names. A
# wheel's libraries call themselves by the wheel's own names, which a program that
# is linked with them would then ask for on every other UCX as well.
make_link_libraries() {
    local file name source=$dir/link.s
    for file in lib/libuc[mpst].so.0 lib/ucx/libuct_ib.so.0.0.0; do
        name=$(basename "${file%.so.*}")
        name=${name%%-*}
        nm -D --defined-only --format=posix "$file" |
            awk '$2 ~ /[TW]/ { printf ".globl %s\n.type %s, @function\n%s:\n", $1, $1, $1 }
                 $2 ~ /[BDRV]/ && $4 != "" {
                     printf ".data\n.balign 32\n.globl %s\n.type %s, @object\n" \
                            ".size %s, 0x%s\n%s: .space 0x%s\n.text\n",
                            $1, $1, $1, $4, $1, $4 }' >"$source"
        "${compile[@]}" -shared -nostdlib -Wl,-z,noexecstack -Wl,-soname,"$name.so.0" -o "lib/$name.so" "$source"
    done
    rm "$source"
}

# A wheel's own libibverbs looks for providers where its builder had them, and
# takes those of its own rdma-core only; so it finds no soft-RoCE. Its libmlx5
# is of the same rdma-core.
link_verbs() {
    local file name
    for file in "$1"/lib{ibverbs,mlx5}-*; do
        [ -e "$file" ] || continue
        name=$(basename "$file")
        ln -s "$(realpath "$("${compile[@]}" -print-file-name="${name%%-*}.so.1")")" \
            "lib/$name"
    done
}

# NIXL itself, for Python: prefix/nixl. Its libraries look for UCX's, and for
# more, in a folder beside them.
keep_nixl() {
    local package name
    for package in ../ucx/nixl_cu*; do
        name=$(basename "$package")
        [ -e "$package/__init__.py" ] && [ "$version" = "${version#a}" ] || continue
        mkdir -p nixl
        cp -a "$package" "../ucx/.$name.mesonpy.libs" nixl/
        cp -an "../ucx/$name.libs/." lib/
        ln -s ../lib "nixl/$name.libs"
    done
}

lay_out() {
    local lib program
    mkdir -p prefix/{bin,lib}
    cd prefix
    lib=$(dirname "$(find ../ucx -name 'libucp[-.]*' -print -quit)")
    cp -a "$lib"/libuc[mpst][.-]* "$lib/ucx" lib/
    link_libraries
    link_verbs "$lib"
    keep_nixl
    for program in ../ucx_*; do
        [ -d "$program" ] || continue
        cp -a "$program/libucx/bin/$(basename "$program")" bin/
        chmod +x "bin/$(basename "$program")"
        cp -a "$program"/*.libs/libgomp-* lib/
    done
    if [ -d ../headers ]; then
        cp -a ../headers/libucx/include .
        make_link_libraries
    fi
    cd ..
}

build() {
    local part requirement sum wheel
    while read -r _ part requirement sum; do
        [ "$part" = ucx ] || machine=x86_64
        get_wheel "$requirement" "$sum" "UCX $version" "$table" "$log" "$machine"
        quietly "$log" python3 -m zipfile -e "$wheel" "$part"
    done <<<"$wheels"
    lay_out
    rm -rf headers ucx ucx_*
}

make_once ucx-wheel build "$version-*"
echo "$dir/prefix"
