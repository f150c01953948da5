#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Get Debian's source package of UCX and build it, once, with CUDA, verbs and
# mlx5dv. Prints the folder, which holds src/ and prefix/.
# usage: ucx.sh CUDA_DIR
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

cuda=${1:?usage: ucx.sh CUDA_DIR}
nvml=$TOP_DIR/test/cuda_sim/nvml
# The number: raise it when this script comes to make another UCX.
id=$(key "2 $cuda $(gcc -dumpfullversion) $(dpkg-query -W libibverbs-dev)" \
         "$nvml/nvml.h" "$cuda/include/cuda.h")
dir=$CACHE_DIR/ucx/$id
log=$CACHE_DIR/log/ucx-$id.log

get_source() {
    local apt=$CACHE_DIR/apt/bookworm
    apt_for bookworm deb-src "$apt"
    export APT_CONFIG=$apt/apt.conf
    quietly "$log" apt-get update
    cd "$work"
    quietly "$log" apt-get source --download-only ucx
    quietly "$log" dpkg-source --extract ucx_*.dsc src
    unset APT_CONFIG
}

# Libraries to link UCX with: the machine may have CUDA's headers only, and
# NVML's are in no package. They define what UCX's sources name, so that each is
# needed by what uses it. What UCX finds when it runs is the simulated GPU or
# the real one.
link_stubs() {
    local major name
    major=$(awk '/#define CUDA_VERSION/ { print int($3 / 1000) }' \
                "$cuda/include/cuda.h")
    for name in cu:cuda.so.1 "cuda:cudart.so.$major" nvml:nvidia-ml.so.1; do
        grep -rhoE "\b${name%%:*}[A-Z][A-Za-z0-9_]*" "$1/src/src" |
            sed -E 's/_v[0-9]+$//' | sort -u |
            awk '{ print "void " $1 "(void) {}"
                   for (i = 2; i <= 4; ++i)
                       print "void " $1 "_v" i "(void) {}" }' >"$1/link/stub.c"
        name=${name#*:}
        gcc -w -shared -fPIC -Wl,-soname,"lib$name" \
            -o "$1/link/lib${name%%.*}.so" "$1/link/stub.c"
    done
}

build() {
    local work=$dir.partial version
    [ ! -e "$dir/complete" ] || return 0 # while we waited for the lock
    rm -rf "$dir" "$work"
    mkdir -p "$work/link"
    say "UCX: getting Debian's source package"
    get_source
    version=$(awk '/^Version:/ { print $2; exit }' "$work"/ucx_*.dsc)

    link_stubs "$work"

    say "UCX $version: configuring and building, about 3 minutes on two cores"
    mv "$work" "$dir"
    cd "$dir/src"
    ln -sfn debian.upstream debian
    quietly "$log" ./autogen.sh
    # LIBRARY_PATH may lead to another libcuda.
    quietly "$log" env -u LIBRARY_PATH ./contrib/configure-release \
        --prefix="$dir/prefix" --enable-mt \
        --with-cuda="$cuda" --with-verbs --with-mlx5-dv --without-java \
        --without-go --disable-doxygen-doc \
        CPPFLAGS="-I$nvml" LDFLAGS="-L$dir/link"
    # Folder by folder: "test" does not compile with CUDA 13.
    local part
    for part in ucm ucs uct ucp tools/info tools/perf; do
        quietly "$log" make -C "src/$part" -j"$(nproc)"
        quietly "$log" make -C "src/$part" install
    done
    touch "$dir/complete"
}

[ -e "$dir/complete" ] || with_lock ucx build
# Those of earlier states of the tree are of no use any more; what another tree
# uses has been touched by it.
touch "$dir"
find "$CACHE_DIR/ucx" -mindepth 1 -maxdepth 1 ! -name "$id" \
     -mtime +7 -exec rm -rf {} +
echo "$dir"
