# SPDX-License-Identifier: BSD-3-Clause
"""Two processes exchange arrays of a GPU by UCXX, as Dask's workers do.

usage: talk.py ADDRESS server|client FOLDER SEED

The server listens at the address; the folder is where the client finds its port. Both
compute from the seed what each sends, and compare every byte they receive. The last
line says how much this process copied to do that, and how much was in messages so
small that UCX may copy them.
"""

import asyncio
import os
import random
import sys
import types

from gpu import Array, Gpu

# UCXX has numpy show host memory that it received, and cuda.core make a context of
# GPU 0 current in its progress thread.
sys.modules["numpy"] = types.SimpleNamespace(asarray=memoryview)
import ucxx
import ucxx._cuda_context

ucxx._cuda_context.ensure_cuda_context = Gpu

MODES = ["thread", "polling"]
SMALL = 8192  # UCXX's UCX_RNDV_THRESH
SIZES = [7, 500, 65537, (1 << 20) + 1, 3 << 20]  # the small ones weigh less than the next
PATIENCE = 200  # seconds, longer than who runs this lets a hang last


class Side:
    """One of the two, with what both know."""

    def __init__(self, address, name, folder, seed):
        self.server, self.address, self.folder = name == "server", address, folder
        self.seed = seed
        self.gpu = Gpu(0 if self.server else 1)
        self.turn = 0
        self.small = 0  # bytes that UCX may have copied
        self.accepted = asyncio.Queue()
        self.listener = None

    def bytes_of(self, server, size):
        return random.Random(f"{self.seed} {self.turn} {server}").randbytes(size)

    def filled(self, size):
        array = Array(self.gpu, size, offset=self.turn % 3)
        array.write(self.bytes_of(self.server, size))
        return array

    def read(self, buffer):
        interface = getattr(buffer, "__cuda_array_interface__", None)
        if not interface:
            return bytes(buffer)
        return self.gpu.read(interface["data"][0], interface["shape"][0])

    async def start(self, mode):
        """Starts UCX anew; for the server also a listener."""
        ucxx.init(progress_mode=mode)
        path = os.path.join(self.folder, mode)
        if self.server:
            # By default it forgets a client whose answer takes 5 seconds, which the
            # client, already connected, is not told.
            self.listener = ucxx.create_listener(
                self.accepted.put_nowait, 0, connect_timeout=PATIENCE)
            with open(path + ".new", "w", encoding="ascii") as file:
                file.write(str(self.listener.port))
            os.rename(path + ".new", path)
            return
        while not os.path.exists(path):
            await asyncio.sleep(0.01)
        with open(path, encoding="ascii") as file:
            self.port = int(file.read())

    async def connect(self):
        if self.server:
            return await self.accepted.get()
        while True:
            try:
                return await ucxx.create_endpoint(
                    self.address, self.port, connect_timeout=PATIENCE / 4)
            except (asyncio.TimeoutError,
                    ucxx.exceptions.UCXUnreachableError):
                # At times a side's UCX says "Destination is unreachable" of a
                # connection, with the plug-in and without.
                print("connects once more", flush=True)

    async def stop(self):
        while self.listener and self.listener.active_clients:
            await asyncio.sleep(0.01)
        self.listener = None
        ucxx.reset()

    def expect(self, what, buffer, size):
        if self.read(buffer) != self.bytes_of(not self.server, size):
            raise RuntimeError(f"turn {self.turn}: {what} of {size}: other bytes")

    async def tagged(self, ep, size):
        mine, theirs = self.filled(size), Array(self.gpu, size)
        await asyncio.gather(ep.send(mine), ep.recv(theirs))
        self.expect("tagged message", theirs, size)

    async def active(self, ep, size):
        """UCXX receives GPU memory into that of GPU 0's default pool."""
        _, theirs = await asyncio.gather(ep.am_send(self.filled(size)), ep.am_recv())
        self.expect("active message", theirs, size)

    async def exchange(self, ep):
        plan = [(kind, size) for size in SIZES
                for kind in (self.tagged, self.active)]
        random.Random(f"{self.seed} {self.turn}").shuffle(plan)
        for kind, size in plan:
            self.turn += 1
            self.small += 2 * size if size < SMALL else 0
            await kind(ep, size)

    async def messages(self, mode):
        await self.start(mode)
        ep = await self.connect()
        await self.exchange(ep)
        await self.goodbye(ep)
        await self.stop()

    async def goodbye(self, ep):
        """A close drops what is not sent yet: the one that received last closes first."""
        if self.server:
            await ep.send(b"bye")
            while ep.alive:
                await asyncio.sleep(0.01)
        else:
            await ep.recv(bytearray(3))
        await ep.close()


async def main():
    side = Side(*sys.argv[1:5])
    for mode in MODES:
        await side.messages(mode)
    print(f"{side.turn} turns, every byte as expected; small {side.small},"
          f" copied {side.gpu.copied}")


asyncio.run(main())
