#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Get Debian's source package of Open MPI and build it, once, with CUDA and OpenSHMEM
# over the tests' UCX. Programs that are built with Debian's own Open MPI run
# with it. Prints the prefix.
# usage: openmpi.sh CUDA_DIR
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

cuda=${1:?usage: openmpi.sh CUDA_DIR}
ucx=$("$SETUP_DIR/ucx_wheel.sh" "$BASE_UCX")
# The number: raise it when this script comes to make another Open MPI.
id=$(key "2 $ucx $(dpkg-query -W libpmix-dev libhwloc-dev libevent-dev)" \
         /dev/null)
dir=$CACHE_DIR/openmpi/$id
log=$CACHE_DIR/log/openmpi-$id.log

get_source() {
    local apt=$CACHE_DIR/apt/bookworm
    apt_for bookworm deb-src "$apt"
    export APT_CONFIG=$apt/apt.conf
    quietly "$log" apt-get update
    quietly "$log" apt-get source --download-only openmpi
    unset APT_CONFIG
    # Debian's patches are about packages, and would have autoconf run again.
    quietly "$log" dpkg-source --skip-patches --extract openmpi_*.dsc src
}

# What Debian's is built with, but CUDA, and what nothing here uses. It opens libcuda
# when it runs.
build() {
    local part
    say "Open MPI: getting Debian's source package"
    get_source
    say "Open MPI: configuring and building with CUDA, about 7 minutes on two cores"
    mkdir build
    cd build
    # As any user of a UCX of his own has it: what LD_LIBRARY_PATH names comes
    # first.
    quietly "$log" ../src/configure --prefix="$dir/prefix" \
        --with-cuda="$cuda" --with-ucx="$ucx" --enable-oshmem \
        --with-pmix=/usr/lib/x86_64-linux-gnu/pmix2 --with-libevent=external \
        --with-hwloc=external --disable-mpi-fortran --disable-oshmem-fortran \
        --disable-man-pages --disable-io-romio --without-verbs \
        --without-libfabric --without-psm2 \
        --enable-mca-no-build=btl-uct,btl-usnic,coll-monitoring,pml-monitoring,osc-monitoring,common-monitoring \
        CFLAGS="-O2 -w" LDFLAGS=-Wl,--enable-new-dtags
    for part in opal orte ompi oshmem; do
        quietly "$log" make -C "$part" -j"$(nproc)"
        quietly "$log" make -C "$part" install
    done
    cd ..
    rm -rf src build
}

make_once openmpi build
echo "$dir/prefix"
