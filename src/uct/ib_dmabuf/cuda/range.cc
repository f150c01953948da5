// SPDX-License-Identifier: BSD-3-Clause
#include "vendor.h"

namespace ucx_ib_dmabuf {
namespace {

// SplitMix64's finalizer (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

// Of identities that were given out one after the other, and that may change
// places: neither their sum nor their difference may come through.
uint64_t combine(uint64_t hash, uint64_t identity)
{
    return mixed(mixed(hash) + identity);
}

} // namespace

ucs_status_t cuda_vendor::describe(uintptr_t address, size_t length,
                                   extent *out)
{
    const uintptr_t end = address + length;
    relaxed_capture relaxed(cuda_);
    std::optional<scoped_context> context;
    segment whole;

    ucs_status_t status = segment_at(address, &whole, &context);
    if (status != UCS_OK) {
        return status;
    }
    if ((length == 0) || (end < address)) {
        return UCS_ERR_INVALID_PARAM;
    }

    // Two allocations that lie side by side are two, whatever lies in both.
    while (whole.base + whole.size < end) {
        const uintptr_t border = whole.base + whole.size;
        segment next;
        if (!whole.joins || (segment_at(border, &next, &context) != UCS_OK) ||
            !next.joins || (next.device != whole.device) || (next.size == 0) ||
            (next.base != border)) {
            return UCS_ERR_INVALID_PARAM;
        }
        whole.size += next.size;
        whole.identity = combine(whole.identity, next.identity);
    }
    *out = whole;
    return UCS_OK;
}

// One driver call for ordinary allocations.
bool cuda_vendor::is_current(uintptr_t address, size_t length,
                             uint64_t identity)
{
    unsigned long long found = 0;
    relaxed_capture relaxed(cuda_);
    CUresult result = cuda_.pointer_get_attribute(
        &found, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);

    if (result != CUDA_SUCCESS) {
        return false;
    }
    if (found == identity) {
        return true;
    }
    extent now;
    return (describe(address, length, &now) == UCS_OK) &&
           (now.identity == identity);
}

} // namespace ucx_ib_dmabuf
