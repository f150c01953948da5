# SPDX-License-Identifier: BSD-3-Clause
"""Two NIXL agents, one process each, move blocks between pools of GPU memory.

usage: agents.py server|client FOLDER SEED

The client reads and writes; the folder is where they find each other. Both compute from the seed what is to
be done and what has to be in both pools afterwards, and compare every byte of
their own. The last line says how much each copied to do that, and how much was
in blocks so small that UCX may copy them.
"""

import os
import random
import sys
import time

import _bindings as nixl  # of the wheel, without the packages that its API wants
from gpu import Gpu

POOL = 8 << 20
ROUNDS = 2  # each with a pool of its own, at the old one's address
SIZES = [1, 4096, 65537, 1 << 20, (2 << 20) + 3]
LISTS = [1, 1, 1, 16]  # blocks of a transfer
SMALL = 64


def listed(kind, descriptors):
    """A list of descriptors, made without numpy, which a constructor asks for."""
    made = kind(nixl.VRAM_SEG, 0)
    for descriptor in descriptors:
        made.append(descriptor)
    return made


class Agent:
    """An agent with the UCX backend, and the other one's name."""

    def __init__(self, name, other, folder):
        self.name, self.other, self.folder = name, other, folder
        config = nixl.nixlAgentConfig()
        config.useProgThread = True
        self.agent = nixl.nixlAgent(name, config)
        self.backend = [self.agent.createBackend("UCX", {})]
        self.said = []

    def register(self, address, device):
        pool = listed(nixl.nixlRegDList, [(address, POOL, device, b"")])
        self.agent.registerMem(pool, self.backend)
        return pool

    def meet(self, turn, address):
        """Exchanges what a peer has to know; returns the other pool's address."""
        path = os.path.join(self.folder, f"{turn}.")
        with open(path + self.name + ".new", "wb") as file:
            file.write(address.to_bytes(8, "little") + self.agent.getLocalMD())
        os.rename(path + self.name + ".new", path + self.name)
        while not os.path.exists(path + self.other):
            self.see_other()
            time.sleep(0.01)
        with open(path + self.other, "rb") as file:
            theirs = file.read()
        self.agent.loadRemoteMD(theirs[8:])
        return int.from_bytes(theirs[:8], "little")

    def see_other(self):
        if os.path.exists(os.path.join(self.folder, "failed")):
            raise RuntimeError(f"{self.name}: the other one failed")

    def say(self, words):
        self.agent.genNotif(self.other, words, self.backend)

    def hear(self, words):
        """Waits for these words, which have to be the next."""
        while not self.said:
            self.see_other()
            self.said = self.agent.getNotifs({}, self.backend).get(self.other, [])
        heard = self.said.pop(0)
        if heard != words:
            raise RuntimeError(f"{self.name}: heard {heard!r}, not {words!r}")

    def transfer(self, operation, mine, theirs, words):
        request = self.agent.createXferReq(
            operation, listed(nixl.nixlXferDList, mine),
            listed(nixl.nixlXferDList, theirs), self.other, words, self.backend)
        status = self.agent.postXferReq(request)
        while status == nixl.NIXL_IN_PROG:
            self.see_other()
            status = self.agent.getXferStatus(request)
        if status != nixl.NIXL_SUCCESS:
            raise RuntimeError(f"transfer: {status}")
        self.agent.releaseXferReq(request)


def blocks(choose, count, size):
    """Blocks that do not overlap: one in each of as many parts of the pool."""
    part = POOL // count
    size = min(size, part)
    return [(i * part + choose.randint(0, part - size), size)
            for i in range(count)]


def plan(choose):
    """What is done in a round: WRITE or READ, the client's and server's blocks."""
    for size in SIZES:
        for count in LISTS:
            for operation in nixl.NIXL_WRITE, nixl.NIXL_READ:
                there = blocks(choose, count, size)
                choose.shuffle(there)
                yield operation, blocks(choose, count, size), there


def one_round(turn, agent, gpu, choose):
    writing = agent.name == "client"
    expected = {name: bytearray(choose.randbytes(POOL))
                for name in ("client", "server")}
    address = gpu.allocate(POOL)
    gpu.write(address, expected[agent.name])
    pool = agent.register(address, gpu.device)
    remote = agent.meet(turn, address)
    for step, (operation, here, there) in enumerate(plan(choose)):
        words = b"%d.%d" % (turn, step)
        write = operation == nixl.NIXL_WRITE
        gpu.small += sum(size for _, size in here if size < SMALL)
        for (near, size), (far, _) in zip(here, there):
            if write:
                expected["server"][far:far + size] = \
                    expected["client"][near:near + size]
            else:
                expected["client"][near:near + size] = \
                    expected["server"][far:far + size]
        if writing:
            agent.transfer(
                operation, [(address + at, size, gpu.device) for at, size in here],
                [(remote + at, size, 1 - gpu.device) for at, size in there], words)
        else:
            agent.hear(words)
        if gpu.read(address, POOL) != expected[agent.name]:
            raise RuntimeError(f"{agent.name}: other bytes after {words!r}")
        # The next transfer starts when both have looked.
        if writing:
            agent.hear(b"seen " + words)
        else:
            agent.say(b"seen " + words)
    if writing:
        agent.say(b"end of %d" % turn)
        agent.hear(b"end of %d" % turn)
    else:
        agent.hear(b"end of %d" % turn)
        agent.say(b"end of %d" % turn)
    agent.agent.deregisterMem(pool, agent.backend)
    agent.agent.invalidateRemoteMD(agent.other)
    gpu.free(address)
    return step + 1


def run(name, folder, seed):
    other = {"client": "server", "server": "client"}[name]
    gpu = Gpu(0 if name == "client" else 1)
    gpu.small = 0  # bytes that UCX may have copied
    agent = Agent(name, other, folder)
    choose = random.Random(seed)
    steps = sum(one_round(turn, agent, gpu, choose) for turn in range(ROUNDS))
    print(f"{steps} transfers, every byte as expected; small {gpu.small},"
          f" copied {gpu.copied}")


def main():
    name, folder, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    try:
        run(name, folder, seed)
    except BaseException:
        with open(os.path.join(folder, "failed"), "w", encoding="ascii"):
            raise


main()
