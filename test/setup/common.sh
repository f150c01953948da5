# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the set-up scripts: where built things are kept, how they are
# keyed, and what is printed meanwhile.
# shellcheck shell=bash

set -euo pipefail

SETUP_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # for those who source this
TOP_DIR=$(cd "$SETUP_DIR/../.." && pwd)
CACHE_DIR=${UCX_IB_DMABUF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ucx-ib-dmabuf}

# The UCX that the tests are compiled for, and that all of them run on: the last of
# test/setup/ucx_wheels.
# shellcheck disable=SC2034 # for those who source this
BASE_UCX=$(awk '/^[0-9]/ { version = $1 } END { print version }' "$SETUP_DIR/ucx_wheels")

say()  { printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# key TEXT FILE...: a short name that changes with the text and the files.
key() {
    local text=$1
    shift
    { printf '%s\n' "$text"; cat "$@"; } | sha256sum | cut -c 1-16
}

# quietly LOG COMMAND...: run it with a line of progress now and then; show
# the end of its log if it fails.
quietly() {
    local log=$1 pid since=$SECONDS told=$SECONDS
    shift
    mkdir -p "$(dirname "$log")"
    # a shell's background command would outlive ^C
    setpriv --pdeathsig TERM "$@" >>"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.3
        if ((SECONDS - told >= 20)); then
            told=$SECONDS
            say "  $((SECONDS - since)) s: $(tail -n 1 "$log" | tr -d '\r' | cut -c 1-60)"
        fi
    done
    if ! wait "$pid"; then
        tail -n 30 "$log" >&2
        fail "failed: $*
The whole log: $log"
    fi
}

# with_lock NAME COMMAND...: one at a time on this machine.
with_lock() {
    local name=$1
    shift
    mkdir -p "$CACHE_DIR"
    (
        flock --nonblock 9 || { say "waiting for another set-up of $name"; flock 9; }
        "$@"
    ) 9>"$CACHE_DIR/$name.lock"
}

# make_once LOCK FUNCTION [NAMES]: has the function fill the folder "dir", in which it
# runs, unless it is complete; then forget_others.
make_once() {
    [ -e "$dir/complete" ] || {
        "$SETUP_DIR/packages.sh" >&2
        with_lock "$1" in_new_folder "$2"
    }
    forget_others "${3:-*}"
}

in_new_folder() {
    [ ! -e "$dir/complete" ] || return 0 # while we waited for the lock
    rm -rf --one-file-system "$dir"
    mkdir -p "$dir"
    cd "$dir"
    "$1"
    touch "$dir/complete"
}

# forget_others NAMES: those beside "dir" of earlier states of the tree are of no use
# any more; what another tree uses has been touched by it.
forget_others() {
    touch "$dir"
    find "${dir%/*}" -mindepth 1 -maxdepth 1 -name "$1" ! -path "$dir" \
         ! -name download -mtime +7 -exec rm -rf --one-file-system {} +
}

# apt_for SUITE TYPE DIR: an apt configuration of its own in DIR that knows
# only that suite, from the mirror that this system uses; the system's package
# sources stay as they are.
apt_for() {
    local suite=$1 type=$2 dir=$3 mirror
    # shellcheck disable=SC2016 # apt's own placeholders
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(LABEL) $(CODENAME)' \
                 'Created-By: Packages' 'Origin: Debian' |
             awk '$2 == "Debian" && $3 !~ /-/ { print $1; exit }')
    [ -n "$mirror" ] ||
        fail "apt knows no Debian mirror: run 'apt-get update' first"
    mkdir -p "$dir"/{lists/partial,cache/archives/partial}
    echo "$type [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
         "$mirror $suite main" >"$dir/sources.list"
    cat >"$dir/apt.conf" <<END
Dir::Etc::SourceList "$dir/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State::Lists "$dir/lists";
Dir::Cache "$dir/cache";
APT::Sandbox::User "root";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
END
}

# make_root SUITE PACKAGES OPTION...: mmdebstrap makes "root" of Debian, with these packages, in
# "dir". It is one of make_once's functions.
make_root() {
    [ "$(id -u)" = 0 ] || fail "a root of Debian is made as root only"
    apt_for "$1" deb "$dir/sources"
    say "a root with $2: making it"
    # What it mounts there ends with it, whatever ends it.
    quietly "$log" unshare --mount mmdebstrap "${@:3}" --include="$2" --format=directory \
        "$1" "$dir/root" "$dir/sources/sources.list"
}

# make_arm64_root SUITE PACKAGES: the same for arm64, with Open MPI. Nothing is configured there,
# as no program of it runs here, so it lacks the alternatives.
make_arm64_root() {
    make_root "$1" "$2" --variant=extract --arch=arm64 \
        --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr
    ln -s mpirun.openmpi "$dir/root/usr/bin/mpirun"
}

# get_wheel REQUIREMENT SHA256 FOR TABLE LOG [MACHINE]: sets "wheel" to a Python wheel
# that others built. From where is pip's own configuration; which Python this machine
# has makes no difference. One folder is for all, as an MPI's wheel has a UCX in it, too.
get_wheel() {
    local requirement=$1 sum=$2 name=${1%%==*} downloads=$CACHE_DIR/ucx-wheel/download
    local machine=${6:-x86_64}
    local files="$downloads/${name//-/_}-${requirement##*==}-*_$machine.whl"
    mkdir -p "$downloads"
    wheel=$(compgen -G "$files") || {
        say "$3: downloading $requirement"
        quietly "$5" pip download --no-deps --only-binary :all: \
            --implementation cp --python-version 3.11 --abi cp311 --abi none \
            --platform "manylinux_2_28_$machine" --platform "manylinux1_$machine" \
            --dest "$downloads" "$requirement"
        wheel=$(compgen -G "$files")
    }
    echo "$sum  $wheel" | sha256sum --check --status || {
        rm "$wheel"
        fail "$requirement: not the wheel that $4 names"
    }
}
