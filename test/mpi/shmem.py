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

PLACE = 77  # where in the heap
LARGE = [65536, 1000003, 4 << 20]
SMALL = [1, 8, 100, 4096]


class Host:
    """Bytes in this process's own memory."""

    def __init__(self, size):
        self.data = ctypes.create_string_buffer(size + 4)
        self.address = ctypes.addressof(self.data) + 3
        self.size = size

    def write(self, data):
        ctypes.memmove(self.address, data, len(data))

    def read(self):
        return ctypes.string_at(self.address, self.size)


class Test:
    """One PE's part of all cases."""

    def __init__(self, seed):
        self.library = ctypes.CDLL("liboshmem.so.40", ctypes.RTLD_GLOBAL)
        self.library.shmem_malloc.restype = ctypes.c_void_p
        self.library.shmem_init()
        self.me, pes = self.library.shmem_my_pe(), self.library.shmem_n_pes()
        self.next, self.last = (self.me + 1) % pes, (self.me - 1) % pes
        self.heap = self.library.shmem_malloc(ctypes.c_size_t(8 << 20)) + PLACE
        self.gpu = Gpu(self.me % 2)
        self.seed, self.turn = seed, 0

    def bytes_of(self, pe, size):
        return random.Random(f"{self.seed} {self.turn} {pe}").randbytes(size)

    def move(self, name, to, source, size):
        getattr(self.library, name)(ctypes.c_void_p(to), ctypes.c_void_p(source),
                                    ctypes.c_size_t(size), self.next)
        self.library.shmem_quiet()
        self.library.shmem_barrier_all()

    def put(self, name, mine, size):
        mine.write(self.bytes_of(self.me, size))
        self.move(name, self.heap, mine.address, size)
        return ctypes.string_at(self.heap, size) == self.bytes_of(self.last, size)

    def get(self, name, mine, size):
        ctypes.memmove(self.heap, self.bytes_of(self.me, size), size)
        self.library.shmem_barrier_all()
        self.move(name, mine.address, self.heap, size)
        return mine.read() == self.bytes_of(self.next, size)

    def moves(self, where, sizes):
        for name in ("shmem_putmem", "shmem_putmem_nbi", "shmem_getmem",
                     "shmem_getmem_nbi"):
            reason = ""
            for size in sizes:
                self.turn += 1
                mine = Array(self.gpu, size, offset=3) if where == "GPU" else Host(size)
                before = self.gpu.staged()
                move = self.put if "put" in name else self.get
                right = move(name, mine, size)
                staged = self.gpu.staged() - before
                if not right:
                    reason = f"other bytes of {size}"
                elif staged and size in LARGE:
                    reason = f"{staged} bytes were staged"
                self.library.shmem_barrier_all()
            name += f", {where} memory, {sizes[0]} bytes and more"
            if reason:
                print(f"not ok - {name}: rank {self.me}: {reason}", flush=True)
            elif self.me == 0:
                print(f"ok - {name}", flush=True)


def main():
    ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)  # as linked programs have it
    test = Test(int(sys.argv[1]))
    test.moves("host", SMALL + LARGE)
    test.moves("GPU", LARGE)
    test.moves("GPU", SMALL)
    test.library.shmem_finalize()


main()
