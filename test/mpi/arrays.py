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
GPU = Gpu(RANK % 2)


def bytes_of(rank, size):
    return random.Random(f"{sys.argv[1]} {size} {rank}").randbytes(size)


def xor_of_all(size):
    result = 0
    for rank in range(RANKS):
        result ^= int.from_bytes(bytes_of(rank, size), "little")
    return result.to_bytes(size, "little")


def send(mine, other):
    for sender in 0, 1:
        if RANK % 2 == sender:
            WORLD.Send(mine, RIGHT)
        else:
            WORLD.Recv(other, LEFT)


def isend(mine, other):
    MPI.Request.Waitall([WORLD.Irecv(other, LEFT), WORLD.Isend(mine, RIGHT)])


# The call, what it receives, and how much of a rank's part it may copy by itself; None: it
# computes, on the host.
CASES = [
    ("Send, Recv", send, lambda size: bytes_of(LEFT, size), 0),
    ("Isend, Irecv", isend, lambda size: bytes_of(LEFT, size), 0),
    ("Allgather", WORLD.Allgather,
     lambda size: b"".join(bytes_of(rank, size) for rank in range(RANKS)), 1),
    ("Allreduce", lambda mine, other: WORLD.Allreduce(mine, other, MPI.BXOR), xor_of_all, None),
]


def failure(call, expected, own):
    """This rank's first one, or nothing; the others wait for this rank."""
    found = ""
    for size in [1, 4096, RENDEZVOUS, 1000003]:
        wanted = expected(size)
        mine, other = Array(GPU, size, offset=3), Array(GPU, len(wanted), offset=1)
        mine.write(bytes_of(RANK, size))
        before = GPU.staged()
        call(mine, other)
        staged = GPU.staged() - before
        if other.read() != wanted:
            found = found or f"rank {RANK}: other bytes of {size}"
        elif own is not None and size >= RENDEZVOUS and staged > own * size:
            found = found or f"rank {RANK}: {staged} bytes were staged"
    return found


for name, *case in CASES:
    reasons = list(filter(None, WORLD.allgather(failure(*case))))
    if RANK == 0:
        print(f"not ok - {name}: {reasons[0]}" if reasons else f"ok - {name}", flush=True)
