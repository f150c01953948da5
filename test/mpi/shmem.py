# SPDX-License-Identifier: BSD-3-Clause
"""OpenSHMEM with its symmetric heap in host memory, and buffers of a GPU.

usage: shmem.py SEED host|large|small...

PE 0 prints "ok - NAME" or "not ok - NAME: rank N: REASON" for each case. All
compute from the seed what each puts, and compare every byte that they get.
"""

import ctypes
import random
import sys

from gpu import Array, Gpu

HEAP = 8 << 20  # bytes of the heap that a case uses
PLACE = 77  # where in it
LARGE = [65536, 1000003, 4 << 20]
SMALL = [1, 8, 100, 4096]


class Shmem:
    """The library, and this PE's heap."""

    def __init__(self):
        self.library = ctypes.CDLL("liboshmem.so.40", ctypes.RTLD_GLOBAL)
        self.library.shmem_malloc.restype = ctypes.c_void_p
        self.library.shmem_init()
        self.me = self.library.shmem_my_pe()
        self.all = self.library.shmem_n_pes()
        self.heap = self.library.shmem_malloc(ctypes.c_size_t(HEAP))

    def move(self, name, to, source, size, pe):
        getattr(self.library, name)(
            ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size), pe)

    def barrier(self):
        self.library.shmem_barrier_all()


class Host:
    """Bytes in this process's own memory."""

    def __init__(self, size, offset):
        self.data = ctypes.create_string_buffer(size + offset + 1)
        self.address = ctypes.addressof(self.data) + offset
        self.size = size

    def write(self, data):
        ctypes.memmove(self.address, data, len(data))

    def read(self):
        return ctypes.string_at(self.address, self.size)


class Test:
    """One PE's part of all cases."""

    def __init__(self, seed):
        self.seed, self.turn = seed, 0
        self.shmem = Shmem()
        self.gpu = Gpu(self.shmem.me % 2)
        self.next = (self.shmem.me + 1) % self.shmem.all
        self.last = (self.shmem.me - 1) % self.shmem.all

    def bytes_of(self, pe, size):
        return random.Random(f"{self.seed} {self.turn} {pe}").randbytes(size)

    def buffer(self, where, size):
        return (Array(self.gpu, size, offset=3) if where == "GPU"
                else Host(size, 3))

    def put(self, name, where, size):
        mine = self.buffer(where, size)
        mine.write(self.bytes_of(self.shmem.me, size))
        self.shmem.move(name, self.shmem.heap + PLACE, mine.address, size,
                        self.next)
        self.shmem.library.shmem_quiet()
        self.shmem.barrier()
        return ctypes.string_at(self.shmem.heap + PLACE, size), self.last

    def get(self, name, where, size):
        mine = self.buffer(where, size)
        ctypes.memmove(self.shmem.heap + PLACE,
                       self.bytes_of(self.shmem.me, size), size)
        self.shmem.barrier()
        self.shmem.move(name, mine.address, self.shmem.heap + PLACE, size,
                        self.next)
        self.shmem.library.shmem_quiet()
        self.shmem.barrier()
        return mine.read(), self.next

    def moves(self, where, sizes):
        for name in ("shmem_putmem", "shmem_putmem_nbi", "shmem_getmem",
                     "shmem_getmem_nbi"):
            reason = ""
            for size in sizes:
                self.turn += 1
                before = self.gpu.all_copied() - self.gpu.copied
                move = self.put if "put" in name else self.get
                found, sender = move(name, where, size)
                staged = self.gpu.all_copied() - self.gpu.copied - before
                if found != self.bytes_of(sender, size):
                    reason = f"other bytes of {size}"
                elif staged and size in LARGE:
                    reason = f"{staged} bytes were staged"
                self.shmem.barrier()
            self.report(f"{name}, {where} memory, {sizes[0]} bytes and more",
                        reason)

    def report(self, name, reason):
        """By way of the heap: who has a reason puts it at PE 0."""
        room = 200
        at = self.shmem.heap + HEAP - room * (self.shmem.me + 1)
        text = f"{reason}".encode()[:room - 1].ljust(room, b"\0")
        mine = Host(room, 0)
        mine.write(text)
        self.shmem.move("shmem_putmem", at, mine.address, room, 0)
        self.shmem.barrier()
        if self.shmem.me == 0:
            reasons = [
                (pe, ctypes.string_at(self.shmem.heap + HEAP - room * (pe + 1)))
                for pe in range(self.shmem.all)]
            wrong = [f"rank {pe}: {text.decode()}" for pe, text in reasons if text]
            print(f"not ok - {name}: {wrong[0]}" if wrong else f"ok - {name}",
                  flush=True)
        self.shmem.barrier()


def main():
    ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)  # as linked programs have it
    test = Test(int(sys.argv[1]))
    for group in sys.argv[2:]:
        if group == "host":
            test.moves("host", SMALL + LARGE)
        elif group == "large":
            test.moves("GPU", LARGE)
        elif group == "small":
            test.moves("GPU", SMALL)
    test.shmem.library.shmem_finalize()


main()
