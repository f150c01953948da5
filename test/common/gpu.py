# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a GPU for tests in Python, which need no other package."""

import ctypes


class Gpu:
    """Memory of a GPU, through the driver."""

    def __init__(self, device):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.device = device
        self.copied = 0
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: CUDA error {result}")

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def write(self, address, data):
        self.copied += len(data)
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), bytes(data),
                  ctypes.c_size_t(len(data)))

    def read(self, address, size):
        self.copied += size
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address),
                  ctypes.c_size_t(size))
        return data.raw

    def staged(self):
        """Bytes that the simulated GPU has copied in this process, but not for it."""
        counters = (ctypes.c_uint64 * 2)()  # cuda_sim_counters_t
        self.driver.cuda_sim_counters(ctypes.byref(counters))
        return counters[0] - self.copied


class Array:
    """Bytes on the GPU that say so as CuPy's and Numba's arrays do."""

    def __init__(self, gpu, size, offset=0):
        self.gpu = gpu
        self.size = size
        self.base = gpu.allocate(size + offset + 1)
        self.address = self.base + offset
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "version": 3,
            "data": (self.address, False), "strides": None}

    def __del__(self):
        self.gpu.free(self.base)

    def write(self, data):
        self.gpu.write(self.address, data)

    def read(self):
        return self.gpu.read(self.address, self.size)
