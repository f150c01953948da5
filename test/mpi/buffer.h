// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_MPI_BUFFER_H_
#define UCX_IB_DMABUF_TEST_MPI_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cuda.h>

namespace ucx_ib_dmabuf::test {

enum class memory {
    host,    // malloc
    device,  // cuMemAlloc
    pool,    // cuMemAllocAsync
    vmm,     // cuMemCreate, mapped into a reservation
    managed, // cuMemAllocManaged
    pinned,  // cuMemHostAlloc
};

const char *name_of(memory kind);

// Whether the GPU has the bytes, so that the CPU must not touch them.
constexpr bool is_device(memory kind)
{
    return kind == memory::device || kind == memory::pool ||
           kind == memory::vmm;
}

// Puts the message of that number where a memory of that kind is, or compares
// what is there with it and gives the position of the first wrong byte, or
// no_difference. The copies are the program's own, nothing that UCX stages.
void put_message(memory kind, uint8_t *at, size_t length, uint64_t number);
size_t compare_message(memory kind, const uint8_t *at, size_t length,
                       uint64_t number);

// Makes the primary context of a GPU current in this thread; creates it when
// first used. Does nothing without libcuda.
void use_device(int device);
int current_device();
int count_devices();

// Memory of one kind, of the current device, released with the object. A
// failure ends the program.
class buffer {
public:
    buffer(memory kind, size_t length);
    ~buffer();
    buffer(const buffer &)            = delete;
    buffer &operator=(const buffer &) = delete;

    uint8_t *at(size_t offset = 0) const { return data_ + offset; }
    size_t length() const { return length_; }
    memory kind() const { return kind_; }

    void put(size_t offset, size_t length, uint64_t number)
    {
        put_message(kind_, at(offset), length, number);
    }
    size_t compare(size_t offset, size_t length, uint64_t number) const
    {
        return compare_message(kind_, at(offset), length, number);
    }

private:
    void map_vmm();

    memory kind_;
    size_t length_;
    uint8_t *data_                           = nullptr;
    size_t vmm_length_                       = 0;
    CUmemGenericAllocationHandle vmm_handle_ = 0;
};

} // namespace ucx_ib_dmabuf::test

#endif
