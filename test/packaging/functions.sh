# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests of packages. With an argument, the packages are those for arm64.
# shellcheck shell=bash disable=SC2034,SC2154
. "$top_srcdir/test/tap/tap.sh"

on=()
[ $# = 0 ] || need_arm64
unset LD_PRELOAD LD_LIBRARY_PATH UCX_IB_DMABUF_MODULE

# make_package KIND [arm64]: sets "built" to the folder of the packages.
make_package() {
    make_scratch
    built=$("$top_srcdir/test/packaging/make_package.sh" "$@" 2>"$scratch/log")
    check "a package is built: $1" test -d "$built"
    note "$(tail -n 5 "$scratch/log")"
    cd "$scratch" || exit 1
}

# newest_glibc: the newest version of glibc's symbols in what objdump or rpm prints.
newest_glibc() { grep -oE 'GLIBC_[0-9.]+' | sort -V | tail -n 1; }

# for_2_28 NAME: it has such versions, and none is newer than 2.28.
for_2_28() {
    local newest
    newest=$(newest_glibc)
    check "$1 wants no newer glibc than 2.28: ${newest:=none}" \
        test "$(printf '%s\n' "${newest/none/GLIBC_9}" GLIBC_2.28 | sort -V | tail -n 1)" = GLIBC_2.28
}

# has_pages FOLDER: all that messages and the README name, and what these pages name.
has_pages() {
    local page
    while read -r page; do
        check "it has $page" test -f "$1/$page"
    done < <({ grep -ohE 'docs/[a-z-]+\.md' -r "$top_srcdir/src"
               grep -oE '\]\(docs/[a-z/-]+\.[a-z]+' "$1/README.md" | cut -c 3-
               (cd "$1/docs" && grep -ohE '\]\([a-z/-]+\.[a-z]+' ./*.md) | sed 's,..,docs/,'; } | sort -u)
}

# runs_in FOLDER LIBRARIES PKG_CONFIG: the programs of what was unpacked in these folders run.
runs_in() {
    local preload
    preload=$(realpath "$2")/libucx_ib_dmabuf_preload.so
    expect "ucx-dmabuf-run finds its library" "'$preload'" "$("$1/bin/ucx-dmabuf-run" --print)"
    check "so does pkg-config" test "$preload" -ef \
        "$(PKG_CONFIG_LIBDIR=$3 pkg-config --variable=preload ucx-ib-dmabuf)"
    is "ucx_dmabuf_info runs" "ucx_dmabuf_info $PACKAGE_VERSION" \
        "$("${on[@]}" "$1/bin/ucx_dmabuf_info" --version 2>&1)"
    expect "and looks at this machine" '^ +CUDA driver ' "$("${on[@]}" "$1/bin/ucx_dmabuf_info" 2>&1)"
}
