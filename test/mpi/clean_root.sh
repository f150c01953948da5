# SPDX-License-Identifier: BSD-3-Clause
# Sourced by what runs in the lab in a root with nothing but what a package manager's MPI
# brings: the GPU's driver and the NIC's are the lab's, the MPIs are started there as
# docs/install.md has it.
# shellcheck shell=bash disable=SC2154 # the environment of the tests

# shellcheck source=test/mpi/functions.sh
. "$top_srcdir/test/mpi/functions.sh"

clean=${UCX_IB_DMABUF_CLEAN_ROOT:-}

# What the machine has of the lab: its devices, the drivers of the GPU and of the
# NIC, and the tests' programs.
furnish() {
    share_lab "$clean" "$top_builddir/test/mpi" "$OPENMPI5_PREFIX" "$MPICH_PREFIX"
    cp "$CUDA_SIM_LIBDIR"/libcuda.so.1 "$top_builddir/test/lab/.libs/librxe_dmabuf.so" \
        "$clean/usr/lib/$(gcc -print-multiarch)"
    echo librxe_dmabuf.so >"$clean/etc/ld.so.preload"
}

# In the place of what starts MPI in the lab: as docs/install.md has it, in the root.
# "preload" is set where the plug-in is used, or "runner", which stands before the program.
with_mpi() {
    local ranks=$1 start prefix=${UCX_IB_DMABUF_MPI:-}
    shift
    forget_counters
    start=(mpirun --allow-run-as-root --oversubscribe ${preload:+-x LD_PRELOAD="$preload"})
    [[ ${mpi_launch[0]} != mpiexec* ]] ||
        start=(mpiexec.hydra ${preload:+-genv LD_PRELOAD "$preload"})
    # A wheel's programs find it by their rpath; ours are Debian's.
    [ "$prefix" = /usr ] || start=(env LD_LIBRARY_PATH="$prefix/lib" "${start[@]}")
    # The last lines are about soft-RoCE (test/lab/env).
    chroot "$clean" env -i HOME=/root PATH="$prefix/bin:/usr/bin:/bin" \
        UCX_TLS=rc,cuda UCX_RNDV_THRESH="$UCX_RNDV_THRESH" UCX_WARN_UNUSED_ENV_VARS=n \
        UCX_IB_DMABUF_STATS="$UCX_IB_DMABUF_STATS" CUDA_SIM_STATS="$CUDA_SIM_STATS" \
        MPI_TESTS_STATS="$MPI_TESTS_STATS" \
        CUDA_SIM_DEVICES="${gpus:-2}" \
        OMPI_MCA_pml=ucx OMPI_MCA_btl=^openib,uct,ofi OMPI_MCA_osc=^ucx \
        OMPI_MCA_mtl=^ofi,psm,psm2 \
        PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        MPIR_CVAR_CH4_NETMOD=ucx MPIR_CVAR_NOLOCAL=1 \
        UCX_NET_DEVICES=rxe0:1 UCX_UD_VERBS_ETH_DGID_CHECK=n \
        "${start[@]}" -np "$ranks" ${runner:+"$runner"} "$@" >"$mpi_output" 2>"$mpi_errors"
}

# What follows are checks, on the MPI that use_mpi chose.
runs() {
    gpus=0 with_mpi 2 "$mpi_programs/mpi_tests" any 1 host
    check "${cases_prefix}it runs" grep -q 'no file is left open$' "$mpi_output"
}

sends() {
    run_cases 2 none "$@"
    expect_count "${cases_prefix}device memory was registered" \
        plugin registrations -ge 2
    expect_silence "${cases_prefix}nothing is said"
}
