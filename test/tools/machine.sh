# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests of ucx_dmabuf_info: a machine of files below $root, simulated
# GPUs and NICs, on which all is well; each test breaks one thing.
# shellcheck shell=bash disable=SC2034,SC2154,SC2119,SC2120

make_scratch
root=$scratch/root
switch=/sys/devices/pci0000:b0/0000:b0:01.0/0000:b1:00.0
simulated_gpus=$CUDA_SIM_LIBDIR ucx=${UCX_PREFIX:-}
unset LD_PRELOAD "${!UCX_@}" "${!CUDA_SIM_@}" NO_COLOR CUDA_VISIBLE_DEVICES
mkdir "$scratch/lib" && cp -L "$top_builddir/test/tools/.libs/libibverbs.so.1" "$scratch/lib"
cp -L "$top_builddir/.libs/libucx_ib_dmabuf_preload.so" "$scratch"
cp -L "$top_builddir/.libs/libuct_ib_dmabuf.so.0" "$scratch/plugin.so"

# put FILE TEXT
put() {
    mkdir -p "$root${1%/*}" && printf '%s\n' "$2" >"$root$1"
}

# device PATH ADDRESS NUMA: a device of PCI's, which may have others below it.
device() {
    put "$1/$2/numa_node" "$3"
    mkdir -p "$root/sys/bus/pci/devices"
    ln -sfnT "$root$1/$2" "$root/sys/bus/pci/devices/$2"
}

# acs DEVICE CONTROL: a bridge that has it, with two digits of the control register.
acs() {
    {
        head -c 256 /dev/zero
        printf '%b' "\x0d\x00\x01\x00\x5f\x00\x$2\x00"
    } >"$root/sys/bus/pci/devices/$1/config"
}

# nic NAME FOLDER
nic() {
    mkdir -p "$root/sys/class/infiniband/$1"
    ln -sfnT "$root$2" "$root/sys/class/infiniband/$1/device"
    put "$2/uevent" $'DRIVER=mlx5_core\nPCI_CLASS=20700'
    put "/sys/class/infiniband/$1/fw_ver" 28.42.1000
}

# limits LOCKED FILES: as the kernel tells them.
limits() {
    put /proc/self/limits "Limit                     Soft Limit           Hard Limit           Units
Max processes             unlimited            unlimited            processes
Max open files            $2                 1048576              files
Max locked memory         $1            unlimited            bytes"
}

# Two GPUs, mlx5_0 beside the first.
machine() {
    rm -rf "$root"
    put /proc/sys/kernel/osrelease 6.8.0-31-generic
    put /proc/cmdline 'quiet'
    limits unlimited 1048576
    put /proc/driver/nvidia/version \
        'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.10'
    put /dev/nvidiactl ''
    device /sys/devices/pci0000:b0 0000:b0:01.0 0
    device "${switch%/*}" "${switch##*/}" 0
    device "$switch" 0000:b2:00.0 0
    device "$switch/0000:b2:00.0" 0000:c0:00.0 0
    device "$switch" 0000:b2:01.0 0
    device "$switch/0000:b2:01.0" 0000:c8:00.0 0
    device /sys/devices/pci0000:80 0000:c1:00.0 1
    acs 0000:b2:00.0 00
    acs 0000:b2:01.0 00
    nic mlx5_0 "$switch/0000:b2:01.0/0000:c8:00.0"
    environment=(
        LD_LIBRARY_PATH="$scratch/lib:$simulated_gpus"
        LD_PRELOAD="$scratch/libucx_ib_dmabuf_preload.so"
        CUDA_SIM_DEVICES=1 INFO_NICS=mlx5_0)
}

# info [ARGUMENT]...: its output and status.
info() {
    output=$(env "${environment[@]}" \
                 "$top_builddir/src/tools/ucx_dmabuf_info" --root "$root" "$@" 2>"$scratch/errors")
    status=$?
}

asked=()
# finds STATUS WHAT STATE FOUND CAUSE REMEDY [NAME]: the tool says that, asked for these.
# Patterns.
finds() {
    local name="${7:-$2: $4}"
    info "${asked[@]}"
    expect "$name" "^  $2 +$3 +$4" "$output"
    expect "$name: the cause" "^ +cause: .*$5" "$output"
    expect "$name: the remedy" "^ +remedy: .*$6" "$output"
    check "$name: status $1" test "$status" = "$1"
}

# on [VARIABLE=VALUE]... -- ARGUMENT...: what `finds` expects on a machine with these.
on() {
    machine
    while [ "$1" != -- ]; do
        environment+=("$1")
        shift
    done
    finds "${@:2}"
}
