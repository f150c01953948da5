#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Debian's package of what "make dist" packs, as dpkg-buildpackage makes it; prints the folder.
# Two tests want it: what was built of the same sources is not built again. The environment is
# that of the tests.
# usage: make_deb.sh
# shellcheck disable=SC2154
set -euo pipefail

# The same optimisation, or none, makes no difference to what is asked of it.
build() {
    cd "$scratch/source"
    DEB_BUILD_OPTIONS="noopt nocheck noddebs parallel=$(nproc)" \
        dpkg-buildpackage --build=full --no-sign
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES LD_PRELOAD LD_LIBRARY_PATH
export CCACHE_BASEDIR=$scratch
all=$top_builddir/test/packaging/deb
mkdir -p "$all"
exec 9>"$all/lock"
flock 9

make -s -C "$top_builddir" distdir distdir="$scratch/source" 9>&- >&2
key=$(cd "$scratch/source" &&
    find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-16)
if [ ! -d "$all/$key" ]; then
    find "$all" -mindepth 1 -maxdepth 1 -type d -exec rm -rf {} +
    (build) 9>&- >&2
    mkdir "$scratch/made"
    mv "$scratch"/ucx-ib-dmabuf_* "$scratch/made"
    mv "$scratch/made" "$all/$key"
fi
echo "$all/$key"
