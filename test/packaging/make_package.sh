#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Debian's package, or the RPM, of what "make dist" packs; prints the folder. Two tests want
# each: what was built of the same sources is not built again. The environment is that of the
# tests. "all" are these, a tarball and a wheel, for users: ./quickstart package. A cross
# compiler builds those for arm64.
# usage: make_package.sh deb|rpm|all [arm64]
# shellcheck disable=SC2154
set -euo pipefail

# The same optimisation, or none, makes no difference to what tests ask of it.
noopt=noopt flags=(CFLAGS=-O0 CXXFLAGS=-O0)
build_deb() {
    (cd "$name" && DEB_BUILD_OPTIONS="$noopt nocheck noddebs parallel=$(nproc)" \
        dpkg-buildpackage --build=full --no-sign ${arch:+-d --host-arch "$arch"})
    mv ucx-ib-dmabuf_* made
}

# What it builds with is Debian's here, of which rpm knows nothing.
build_rpm() {
    local cross=()
    tar -cJf "$name.tar.xz" "$name"
    [ -z "$arch" ] || cross=(--target aarch64 --define "_build $(gcc -dumpmachine)"
        --define '_host aarch64-linux-gnu' --define '__strip aarch64-linux-gnu-strip')
    env "${flags[@]}" HOME="$scratch" rpmbuild -ta --nodeps "${cross[@]}" \
        --define "_topdir $scratch/rpm" --define 'debug_package %{nil}' \
        --define 'glibc 2.28' "$name.tar.xz"
    mv rpm/RPMS/*/*.rpm rpm/SRPMS/*.rpm made
}

build_all() {
    local noopt='' flags=(CFLAGS='-O2 -g' CXXFLAGS='-O2 -g')
    # As the RPM is built, so that ccache has what that compiles.
    cp -a "$name" build
    (cd build &&
        ./configure --quiet --disable-dependency-tracking --without-cuda --without-ucx \
            --with-glibc=2.28 "${flags[@]}" ${arch:+--host=aarch64-linux-gnu} &&
        make -s "-j$(nproc)" tarball && make -s wheel && mv ./*.tar.xz ./*.whl ../made)
    build_rpm
    build_deb # the last: it builds within the sources
}

kind=$1 arch=${2:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES LD_PRELOAD LD_LIBRARY_PATH
export CCACHE_BASEDIR=$scratch CCACHE_SLOPPINESS=locale # rpmbuild has another
name=ucx-ib-dmabuf-$PACKAGE_VERSION
all=$top_builddir/test/packaging/$kind/${arch:-native}
mkdir -p "$all"
exec 9>"$all/lock"
flock 9

make -s -C "$top_builddir" distdir distdir="$scratch/$name" 9>&- >&2
cd "$scratch"
# Any other package of Debian's may be another compiler, or what the plug-in contains.
key=$(cd "$name" && { dpkg-query --show && find . -type f -print0 | sort -z | xargs -0 sha256sum; } |
    sha256sum | cut -c 1-16)
if [ ! -d "$all/$key" ]; then
    find "$all" -mindepth 1 -maxdepth 1 -type d -exec rm -rf {} +
    mkdir made
    "build_$kind" 9>&- >&2
    mv made "$all/new"
    mv "$all/new" "$all/$key"
fi
echo "$all/$key"
