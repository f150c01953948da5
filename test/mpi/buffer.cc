// SPDX-License-Identifier: BSD-3-Clause
#include "buffer.h"
#include "driver.h"
#include "pattern.h"
#include <cstdlib>
#include <vector>

namespace ucx_ib_dmabuf::test {
namespace {

CUdeviceptr device_pointer(const uint8_t *data)
{
    return reinterpret_cast<CUdeviceptr>(data);
}

} // namespace

const char *name_of(memory kind)
{
    switch (kind) {
    case memory::host:
        return "host";
    case memory::device:
        return "device";
    case memory::pool:
        return "pool";
    case memory::vmm:
        return "vmm";
    case memory::managed:
        return "managed";
    case memory::pinned:
        return "pinned";
    }
    return "?";
}

int count_devices()
{
    int count = 0;

    if (driver::get().available) {
        TEST_MPI_CUDA(cuDeviceGetCount, &count);
    }
    return count;
}

int current_device()
{
    CUdevice device;

    TEST_MPI_CUDA(cuCtxGetDevice, &device);
    return device;
}

void use_device(int device)
{
    CUcontext context;

    if (!driver::get().available) {
        return;
    }
    TEST_MPI_CUDA(cuDevicePrimaryCtxRetain, &context, device);
    TEST_MPI_CUDA(cuCtxSetCurrent, context);
}

buffer::buffer(memory kind, size_t length) : kind_(kind), length_(length)
{
    CUdeviceptr address = 0;
    void *host          = nullptr;

    switch (kind) {
    case memory::host:
        data_ = static_cast<uint8_t *>(std::malloc(length));
        return;
    case memory::pinned:
        TEST_MPI_CUDA(cuMemHostAlloc, &host, length, 0);
        data_ = static_cast<uint8_t *>(host);
        return;
    case memory::device:
        TEST_MPI_CUDA(cuMemAlloc, &address, length);
        break;
    case memory::managed:
        TEST_MPI_CUDA(cuMemAllocManaged, &address, length,
                      CU_MEM_ATTACH_GLOBAL);
        break;
    case memory::pool:
        TEST_MPI_CUDA(cuMemAllocAsync, &address, length, nullptr);
        TEST_MPI_CUDA(cuStreamSynchronize, nullptr);
        break;
    case memory::vmm:
        map_vmm();
        return;
    }
    data_ = reinterpret_cast<uint8_t *>(address);
}

void buffer::map_vmm()
{
    CUmemAllocationProp properties = {};
    size_t granularity             = 0;
    CUdeviceptr address            = 0;

    properties.type                            = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type                   = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id                     = current_device();
    properties.allocFlags.gpuDirectRDMACapable = 1;

    TEST_MPI_CUDA(cuMemGetAllocationGranularity, &granularity, &properties,
                  CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    vmm_length_ = (length_ + granularity - 1) / granularity * granularity;
    TEST_MPI_CUDA(cuMemCreate, &vmm_handle_, vmm_length_, &properties, 0);
    TEST_MPI_CUDA(cuMemAddressReserve, &address, vmm_length_, 0, 0, 0);
    TEST_MPI_CUDA(cuMemMap, address, vmm_length_, 0, vmm_handle_, 0);
    for (int i = 0; i < count_devices(); ++i) {
        CUmemAccessDesc access = {};

        access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.location.id   = i;
        access.flags         = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        TEST_MPI_CUDA(cuMemSetAccess, address, vmm_length_, &access, 1);
    }
    data_ = reinterpret_cast<uint8_t *>(address);
}

buffer::~buffer()
{
    switch (kind_) {
    case memory::host:
        std::free(data_);
        break;
    case memory::pinned:
        TEST_MPI_CUDA(cuMemFreeHost, data_);
        break;
    case memory::device:
    case memory::managed:
        TEST_MPI_CUDA(cuMemFree, device_pointer(data_));
        break;
    case memory::pool:
        TEST_MPI_CUDA(cuMemFreeAsync, device_pointer(data_), nullptr);
        TEST_MPI_CUDA(cuStreamSynchronize, nullptr);
        break;
    case memory::vmm:
        TEST_MPI_CUDA(cuMemUnmap, device_pointer(data_), vmm_length_);
        TEST_MPI_CUDA(cuMemAddressFree, device_pointer(data_), vmm_length_);
        TEST_MPI_CUDA(cuMemRelease, vmm_handle_);
        break;
    }
}

void put_message(memory kind, uint8_t *at, size_t length, uint64_t number)
{
    if (!is_device(kind)) {
        fill_pattern(at, length, number);
    } else if (length > 0) {
        std::vector<uint8_t> bytes(length);
        fill_pattern(bytes.data(), length, number);
        TEST_MPI_CUDA(cuMemcpyHtoD, device_pointer(at), bytes.data(), length);
    }
}

size_t compare_message(memory kind, const uint8_t *at, size_t length,
                       uint64_t number)
{
    if (!is_device(kind)) {
        return find_difference(at, length, number);
    }
    if (length == 0) {
        return no_difference;
    }
    std::vector<uint8_t> bytes(length);
    TEST_MPI_CUDA(cuMemcpyDtoH, bytes.data(), device_pointer(at), length);
    return find_difference(bytes.data(), length, number);
}

} // namespace ucx_ib_dmabuf::test
