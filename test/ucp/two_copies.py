# SPDX-License-Identifier: BSD-3-Clause
"""Instances of UCX in one process, opened in the order of the arguments, which name their
libucp. Each sends GPU memory to itself over the NIC, in turns with the others, from
addresses that held other memory before. Prints "ok - KIND memory", or "not ok"."""

import ctypes
import random
import sys

from gpu import Gpu

OK, INPROGRESS = 0, 1
NONE = (ctypes.c_uint64 * 64)()  # parameters that ask for nothing


def asking(mask, value):
    """Parameters of UCP's whose first field is the only one."""
    made = (ctypes.c_uint64 * 64)()
    made[0], made[1] = mask, value
    return made


class Ucx:
    """An instance, of which only its own functions are called. All are opened RTLD_LOCAL."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        config, context, worker, address, ep = (ctypes.c_void_p() for _ in range(5))
        length = ctypes.c_size_t()
        self.check("ucp_config_read", None, None, ctypes.byref(config))
        # ucp_init() of a UCX older than the headers would log a warning.
        self.check("ucp_init_version", 1, 16, asking(1, 1), config, ctypes.byref(context))
        self.call("ucp_config_release", config)
        self.check("ucp_worker_create", context, NONE, ctypes.byref(worker))
        self.check("ucp_worker_get_address", worker, ctypes.byref(address), ctypes.byref(length))
        self.check("ucp_ep_create", worker, asking(1, address.value), ctypes.byref(ep))
        self.call("ucp_worker_release_address", worker, address)
        self.context, self.worker, self.ep = context, worker, ep

    def call(self, name, *arguments, result=ctypes.c_int8):
        function = getattr(self.library, name)
        function.restype = result
        return function(*arguments)

    def check(self, name, *arguments):
        status = self.call(name, *arguments)
        if status != OK:
            raise RuntimeError(f"{name}: status {status}")

    def start(self, name, *arguments):
        return self.call(name, *arguments, NONE, result=ctypes.c_void_p)

    def wait(self, request):
        if not request:
            return
        request, status = ctypes.c_void_p(request), INPROGRESS
        if request.value >> 63 == 0:
            while status == INPROGRESS:
                self.call("ucp_worker_progress", self.worker)
                status = self.call("ucp_request_check_status", request)
            self.call("ucp_request_free", request)
        if status != OK:
            raise RuntimeError(f"an operation: status {status}")

    def move(self, to, source, size):
        tag, length = ctypes.c_uint64(1), ctypes.c_size_t(size)
        received = self.start("ucp_tag_recv_nbx", self.worker, ctypes.c_void_p(to), length, tag,
                              ctypes.c_uint64(~0))
        self.wait(self.start("ucp_tag_send_nbx", self.ep, ctypes.c_void_p(source), length, tag))
        self.wait(received)

    def close(self):
        self.wait(self.start("ucp_ep_close_nbx", self.ep))
        self.call("ucp_worker_destroy", self.worker)
        self.call("ucp_cleanup", self.context)


def allocate_of_pool(gpu, size):
    address = ctypes.c_uint64()
    gpu.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(size), None)
    return address.value


def moves(gpu, allocate, all_instances, size):
    """Whether each moves the same memory, with bytes of its own."""
    source, to = allocate(size), allocate(size)
    good = True
    for each in all_instances:
        sent = random.randbytes(size)
        gpu.write(source, sent)
        each.move(to, source, size)
        good = good and gpu.read(to, size) == sent
    gpu.free(source)
    gpu.free(to)
    return good


def main():
    ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)  # as linked programs have it
    gpu = Gpu(0)
    instances = [Ucx(path) for path in sys.argv[1:]]
    for kind, allocate in (("device", gpu.allocate),
                           ("pool", lambda size: allocate_of_pool(gpu, size))):
        results = [moves(gpu, allocate, instances, size)
                   for _ in range(4) for size in (8, 8192, 1 << 20)]
        print("ok" if all(results) else "not ok", f"- {kind} memory", flush=True)
    for each in instances:
        each.close()


main()
