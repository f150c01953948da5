// SPDX-License-Identifier: BSD-3-Clause
#include "memh_get.h"
#include "versions.h"
#include <array>
#include <atomic>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

// UCP's own functions, of each libucp. Entries are only added.
std::array<std::atomic<ucp_memh_get_function *>, 16> originals;
std::atomic<get_memh> done_by;

// The arguments do not identify the libucp: each has a function of its own.
template <size_t index>
ucs_status_t get(void *context, void *address, size_t length,
                 ucs_memory_type_t mem_type, uint64_t md_map, unsigned flags,
                 const char *name, void **memh)
{
    ucp_memh_get_function *const ucp = originals[index];

    if (mem_type == UCS_MEMORY_TYPE_HOST) {
        return ucp(context, address, length, mem_type, md_map, flags, name,
                   memh);
    }
    return done_by.load()({ucp, context, reinterpret_cast<uintptr_t>(address),
                           length, mem_type, md_map, flags, name, memh});
}

template <size_t... indices>
constexpr auto make_ours(std::index_sequence<indices...>)
{
    return std::array{&get<indices>...};
}
constexpr auto ours = make_ours(std::make_index_sequence<originals.size()>());

// The function for a libucp's original, or nullptr if there are too many.
ucp_memh_get_function *ours_for(ucp_memh_get_function *original)
{
    for (size_t i = 0; i < originals.size(); ++i) {
        ucp_memh_get_function *known = nullptr;
        if (originals[i].compare_exchange_strong(known, original) ||
            (known == original)) {
            return ours[i];
        }
    }
    return nullptr;
}

// The loader leaves some tables read-only (RELRO).
bool store(void **slot, void *value)
{
    const auto page  = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    void *const from = reinterpret_cast<void *>(
        reinterpret_cast<uintptr_t>(slot) & ~(page - 1));
    const bool locked = !is_writable(slot);

    if (locked && (mprotect(from, page, PROT_READ | PROT_WRITE) != 0)) {
        return false;
    }
    std::atomic_ref(*slot).store(value);
    if (locked) {
        mprotect(from, page, PROT_READ);
    }
    return true;
}

} // namespace

const char *divert_memh_get(const library &ucp, get_memh by)
{
    constexpr char name[] = "ucp_memh_get_slow";
    static std::mutex mutex;
    auto *const original = ucp.own_symbol(name);

    if (original == nullptr) {
        return nullptr;
    }
    if (is_newer_than_known(version_of(ucp))) {
        return "its arguments may differ in so new a version";
    }
    void **const slot = ucp.import_slot(name);
    if (slot == nullptr) {
        return "it calls its own function directly";
    }
    done_by = by;
    auto *const mine =
        ours_for(reinterpret_cast<ucp_memh_get_function *>(original));
    if (mine == nullptr) {
        return "too many others came first";
    }
    const std::lock_guard<std::mutex> guard(mutex);
    return (*slot == reinterpret_cast<void *>(mine)) ||
                   store(slot, reinterpret_cast<void *>(mine))
               ? nullptr
               : "its table of functions cannot be written";
}

} // namespace ucx_ib_dmabuf
