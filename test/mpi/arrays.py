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
RIGHT, LEFT = (RANK + 1) % RANKS, (RANK - 1) % RANKS
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

    def new(self, data, **kind):
        if not self.on_gpu:
            return bytearray(data)
        array = Array(self.gpu, len(data), **kind)
        array.write(data)
        return array

    def mine(self, size, **kind):
        return self.new(self.bytes_of(RANK, size), **kind)

    def empty(self, size, **kind):
        return self.new(bytes(size), **kind)

    def expect(self, found, expected):
        found = found.read() if self.on_gpu else bytes(found)
        self.fail(found != expected, "other bytes")

    def fail(self, failed, reason):
        if failed and not self.reason:
            self.reason = f"rank {RANK}: {reason}"


def send(buffers, size):
    mine, other = buffers.mine(size, offset=3), buffers.empty(size, offset=1)
    for sender in 0, 1:
        if RANK % 2 == sender:
            WORLD.Send(mine, RIGHT)
        else:
            WORLD.Recv(other, LEFT)
            buffers.expect(other, buffers.bytes_of(LEFT, size))


def isend(buffers, size):
    mine, other = buffers.mine(size), buffers.empty(size)
    MPI.Request.Waitall([WORLD.Irecv(other, LEFT), WORLD.Isend(mine, RIGHT)])
    buffers.expect(other, buffers.bytes_of(LEFT, size))


def bcast(buffers, size):
    for root in range(RANKS):
        array = buffers.mine(size)
        WORLD.Bcast(array, root)
        buffers.expect(array, buffers.bytes_of(root, size))


def allgather(buffers, size):
    mine, every = buffers.mine(size), buffers.empty(size * RANKS)
    WORLD.Allgather(mine, every)
    buffers.expect(every, b"".join(buffers.bytes_of(rank, size) for rank in range(RANKS)))


def allreduce(buffers, size):
    mine, result = buffers.mine(size), buffers.empty(size)
    WORLD.Allreduce(mine, result, MPI.BXOR)
    combined = 0
    for rank in range(RANKS):
        combined ^= int.from_bytes(buffers.bytes_of(rank, size), "little")
    buffers.expect(result, combined.to_bytes(size, "little"))


def typed(buffers, size):
    """Sums of 64-bit numbers: the type is the array's."""
    if not buffers.on_gpu:
        return
    count = size // 8
    mine = buffers.new((RANK + 5).to_bytes(8, "little") * count, typestr="<i8")
    result = buffers.empty(8 * count, typestr="<i8")
    WORLD.Allreduce(mine, result)
    total = sum(range(RANKS)) + 5 * RANKS
    buffers.expect(result, total.to_bytes(8, "little") * count)


# How much of a rank's part the call may copy by itself; None: it computes, on
# the host.
CASES = [
    ("Send, Recv", send, 0), ("Isend, Irecv", isend, 0), ("Bcast", bcast, 0),
    ("Allgather", allgather, 1), ("Allreduce", allreduce, None),
    ("Allreduce of numbers", typed, None),
]


def run(buffers, where):
    for name, function, own in CASES:
        buffers.reason = ""
        for size in SIZES:
            buffers.turn += 1
            before = buffers.gpu.staged()
            function(buffers, size)
            staged = buffers.gpu.staged() - before
            buffers.fail(own is not None and size >= RENDEZVOUS and staged > own * size,
                         f"{staged} bytes were staged")
        reasons = [one for one in WORLD.allgather(buffers.reason) if one]
        if RANK == 0:
            print(f"not ok - {name}, {where}: {reasons[0]}" if reasons
                  else f"ok - {name}, {where}", flush=True)


def main():
    gpu = Gpu(RANK % 2)
    run(Buffers(gpu, sys.argv[1], False), "host memory")
    run(Buffers(gpu, sys.argv[1], True), "GPU memory")


main()
