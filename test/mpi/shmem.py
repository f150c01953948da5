# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM with its symmetric heap in host memory, and buffers of a GPU.

usage: shmem.py SEED

PE 0 prints "ok - NAME" for each case, and each PE "not ok - NAME: rank N: REASON". All
compute from the seed what each puts, and compare every byte that they get.
"""

import ctypes
import random
import sys

from gpu import Array, Gpu

LARGE = 65536  # from this size on nothing is staged
SIZES = [1, 8, 100, 4096, LARGE, 1000003, 4 << 20]


def bytes_of(pe, name, size):
    return random.Random(f"{sys.argv[1]} {name} {pe}").randbytes(size)


def run(shmem, me, pes, heap, gpu, name):
    """Puts into the next PE's heap, or gets from there."""
    def move(to, source):
        shmem.shmem_barrier_all()
        getattr(shmem, name)(ctypes.c_void_p(to), ctypes.c_void_p(source),
                             ctypes.c_size_t(size), (me + 1) % pes)
        shmem.shmem_quiet()
        shmem.shmem_barrier_all()

    reason = ""
    for size in SIZES:
        own = bytes_of(me, name, size)
        array = Array(gpu, size, offset=3)
        before = gpu.staged()
        if "put" in name:
            array.write(own)
            move(heap, array.address)
            right = ctypes.string_at(heap, size) == bytes_of((me - 1) % pes, name, size)
        else:
            ctypes.memmove(heap, own, size)
            move(array.address, heap)
            right = array.read() == bytes_of((me + 1) % pes, name, size)
        if not right:
            reason = f": rank {me}: other bytes of {size}"
        elif size >= LARGE and gpu.staged() > before:
            reason = f": rank {me}: bytes of {size} were staged"
    if reason or me == 0:
        print(f"{'not ok' if reason else 'ok'} - {name}{reason}", flush=True)


def main():
    ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)  # as linked programs have it
    shmem = ctypes.CDLL("liboshmem.so.40", ctypes.RTLD_GLOBAL)
    shmem.shmem_malloc.restype = ctypes.c_void_p
    shmem.shmem_init()
    me, pes = shmem.shmem_my_pe(), shmem.shmem_n_pes()
    heap = shmem.shmem_malloc(ctypes.c_size_t(8 << 20)) + 77
    for name in "putmem", "putmem_nbi", "getmem", "getmem_nbi":
        run(shmem, me, pes, heap, Gpu(me % 2), "shmem_" + name)
    shmem.shmem_finalize()


main()
