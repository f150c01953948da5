# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py with arrays of a GPU, which offer __cuda_array_interface__.

usage: arrays.py SEED

Rank 0 prints "ok - NAME" or "not ok - NAME: rank N: REASON" for each case. All
ranks compute from the seed what each sends, and compare every byte they receive.
"""

import ctypes
import random
import sys

from gpu import Array, Gpu

# As in programs that are linked with it: UCX hooks what is global when it
# starts, which is in the next line.
ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
RENDEZVOUS = 65536  # of test/mpi/functions.sh
SIZES = [1, 4096, RENDEZVOUS, 1000003]


class Buffers:
    """What a case sends and receives: on the GPU, or in host memory."""

    def __init__(self, gpu, seed, on_gpu):
        self.gpu, self.seed, self.on_gpu = gpu, seed, on_gpu
        self.turn = 0
        self.reason = ""  # of a failure: the first; the others wait for this rank

    def bytes_of(self, rank, size):
        return random.Random(f"{self.seed} {self.turn} {rank}").randbytes(size)

    def new(self, size, data=None, **kind):
        if not self.on_gpu:
            return bytearray(data or bytes(size))
        array = Array(self.gpu, size, **kind)
        if data:
            array.write(data)
        return array

    def mine(self, size, **kind):
        return self.new(size, self.bytes_of(RANK, size), **kind)

    @staticmethod
    def read(array):
        return array.read() if isinstance(array, Array) else bytes(array)


def expect(buffers, found, *expected):
    if buffers.read(found) != b"".join(expected):
        buffers.reason = buffers.reason or "other bytes"


def neighbours():
    return (RANK + 1) % RANKS, (RANK - 1) % RANKS


def send(buffers, size):
    right, left = neighbours()
    mine, other = buffers.mine(size, offset=3), buffers.new(size, offset=1)
    for sender in 0, 1:
        if RANK % 2 == sender:
            WORLD.Send(mine, right)
        else:
            WORLD.Recv(other, left)
            expect(buffers, other, buffers.bytes_of(left, size))


def isend(buffers, size):
    right, left = neighbours()
    mine, other = buffers.mine(size), buffers.new(size)
    MPI.Request.Waitall([WORLD.Irecv(other, left), WORLD.Isend(mine, right)])
    expect(buffers, other, buffers.bytes_of(left, size))


def bcast(buffers, size):
    for root in range(RANKS):
        array = buffers.mine(size)
        WORLD.Bcast(array, root)
        expect(buffers, array, buffers.bytes_of(root, size))


def allgather(buffers, size):
    mine, every = buffers.mine(size), buffers.new(size * RANKS)
    WORLD.Allgather(mine, every)
    expect(buffers, every,
           *(buffers.bytes_of(rank, size) for rank in range(RANKS)))


def allreduce(buffers, size):
    mine, result = buffers.mine(size), buffers.new(size)
    WORLD.Allreduce(mine, result, MPI.BXOR)
    combined = 0
    for rank in range(RANKS):
        combined ^= int.from_bytes(buffers.bytes_of(rank, size), "little")
    expect(buffers, result, combined.to_bytes(size, "little"))


def typed(buffers, size):
    """The type is the array's; sums of 64-bit numbers."""
    if not buffers.on_gpu:
        return
    count = size // 8
    mine = Array(buffers.gpu, 8 * count, "<i8")
    result = Array(buffers.gpu, 8 * count, "<i8")
    mine.write((RANK + 5).to_bytes(8, "little") * count)
    WORLD.Allreduce(mine, result)
    total = sum(range(RANKS)) + 5 * RANKS
    expect(buffers, result, total.to_bytes(8, "little") * count)


# How much of a rank's part the call may copy by itself; None: it computes, on
# the host.
CASES = [
    ("Send, Recv", send, 0), ("Isend, Irecv", isend, 0), ("Bcast", bcast, 0),
    ("Allgather", allgather, 1), ("Allreduce", allreduce, None),
    ("Allreduce of numbers", typed, None),
]


def run_case(buffers, function, own):
    for size in SIZES:
        buffers.turn += 1
        gpu = buffers.gpu
        before = gpu.all_copied() - gpu.copied
        function(buffers, size)
        staged = gpu.all_copied() - gpu.copied - before
        if own is not None and size >= RENDEZVOUS and staged > own * size:
            buffers.reason = buffers.reason or f"{staged} bytes were staged"


def run(buffers, where):
    for name, function, own in CASES:
        buffers.reason = ""
        run_case(buffers, function, own)
        reason = buffers.reason and f"rank {RANK}: {buffers.reason}"
        reasons = [one for one in WORLD.allgather(reason) if one]
        if RANK == 0:
            print(f"not ok - {name}, {where}: {reasons[0]}" if reasons
                  else f"ok - {name}, {where}", flush=True)


def main():
    seed = int(sys.argv[1])
    gpu = Gpu(RANK % 2)
    run(Buffers(gpu, seed, False), "host memory")
    run(Buffers(gpu, seed, True), "GPU memory")


main()
