#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Install the Debian packages that build and test the project. Without root,
# say which are missing.
# usage: packages.sh [--arm64]
# shellcheck source=test/setup/common.sh
. "$(dirname "$0")/common.sh"

[ "$(uname -m)" = x86_64 ] ||
    fail "this machine is $(uname -m); the lab's kernel runs on x86_64 only." \
         "The plug-in itself can be built with ./configure && make"
# shellcheck source=/dev/null
. "${UCX_IB_DMABUF_OS_RELEASE:-/etc/os-release}" 2>/dev/null || :
case ${ID:-}-${VERSION_ID:-} in
debian-12) clang=14 ;;
debian-13) clang=19 ;;
*)  fail "this is ${PRETTY_NAME:-an unknown system}; quickstart sets up" \
         "Debian 12 and 13 only. The plug-in itself can be built elsewhere with" \
         "./configure && make (see docs/install.md)" ;;
esac

packages=(
    # build
    gcc g++ ccache make autoconf automake libtool m4 pkg-config dpkg-dev git
    libibverbs-dev librdmacm-dev libnuma-dev nlohmann-json3-dev libgtest-dev
    # the lab's kernel, and Open MPI
    flex bison bc xz-utils libelf-dev libssl-dev debian-archive-keyring
    patch gawk cpio kmod rsync
    # arm64
    g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
    # run
    ibverbs-providers ibverbs-utils iproute2 libopenmpi-dev openmpi-bin
    python3-minimal procps strace
    # wheels
    python3 python3-pip
    # checks of the sources, sanitizers and the fuzzer
    clang clang-format clang-tidy "libclang-rt-$clang-dev" shellcheck valgrind
    # packages, man pages and completion
    debhelper lintian mandoc bash-completion zsh environment-modules rpm
    # the pages as a site
    python3-sphinx python3-myst-parser furo
)

[ "${1:-}" != --arm64 ] || packages+=(qemu-system-arm) # whole machines
[ "$(id -u)" != 0 ] || packages+=(mmdebstrap) # a clean root, which only root makes

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
        grep -q '^installed$' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
    fail "these packages are missing: ${missing[*]}
Install them as root: apt-get install ${missing[*]}"
fi
say "installing ${#missing[@]} packages: ${missing[*]}"
log=$CACHE_DIR/log/packages.log
quietly "$log" apt-get update
export DEBIAN_FRONTEND=noninteractive
# It waits for another apt that installs, ten minutes at most.
quietly "$log" apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends \
    "${missing[@]}"
