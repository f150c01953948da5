// SPDX-License-Identifier: BSD-3-Clause
#include "ucp.h"
#include "abi.h"
#include "versions.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <span>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

// UCP's own functions, of each libucp. The arguments do not identify the
// libucp, so each has replacements of its own. Entries are only added: a
// library may be closed and reopened.
constexpr size_t max_ucps = 16;

template <class Functions>
struct original_functions {
    std::array<Functions, max_ucps> of{};
    size_t count = 0;

    // Returns their index, max_ucps if there are too many.
    size_t add(const Functions &wanted)
    {
        const auto known = std::span(of).first(count);
        const auto index = std::ranges::find(known, wanted) - known.begin();

        if ((index == std::ssize(known)) && (count < max_ucps)) {
            of[count++] = wanted;
        }
        return static_cast<size_t>(index);
    }
};
constexpr char too_many[] = "too many others came first";
std::mutex mutex; // of additions

struct atomic_handlers {
    uct_am_callback_t cb;
    uct_am_callback_t proxy_cb;

    bool operator==(const atomic_handlers &) const = default;
};
original_functions<atomic_handlers> handlers;
std::atomic<do_atomic> atomics_by;

original_functions<ucp_memh_get_function *> memh_getters;
std::atomic<get_memh> memhs_by;

struct [[gnu::packed]] message {
    ucp_atomic_req_hdr_t header;
    uint8_t operands[2 * sizeof(uint64_t)];
};

uint64_t operand(const message &from, size_t index)
{
    uint64_t value = 0; // little endian
    memcpy(&value, &from.operands[index * from.header.length],
           from.header.length);
    return value;
}

// Returns false if the message is no known operation: UCP handles it.
bool parse(const message &from, size_t length, atomic_request *out)
{
    const size_t word = from.header.length;

    if (((word != sizeof(uint32_t)) && (word != sizeof(uint64_t))) ||
        (from.header.opcode > uint8_t(atomic_operation::cswap))) {
        return false;
    }
    *out = {from.header.address, word, atomic_operation(from.header.opcode),
            operand(from, 0), 0};
    const bool is_cswap = out->operation == atomic_operation::cswap;
    if (is_cswap) {
        out->swapped = operand(from, 1);
    }
    return length >= sizeof(from.header) + (is_cswap ? 2 : 1) * word;
}

// UCP sends the reply: it performs the operation once more, on a local word
// with the memory's previous value. It stores no reference to the message.
ucs_status_t handle(uct_am_callback_t ucp, void *arg, void *data, size_t length,
                    unsigned flags)
{
    message received = {};
    atomic_request request;
    uint64_t before = 0;

    if ((length < sizeof(received.header)) || (length > sizeof(received))) {
        return ucp(arg, data, length, flags);
    }
    memcpy(&received, data, length);
    if (!parse(received, length, &request) ||
        !atomics_by.load()(request, &before)) {
        return ucp(arg, data, length, flags);
    }
    received.header.address = reinterpret_cast<uintptr_t>(&before);
    return ucp(arg, &received, length, flags & ~UCT_CB_PARAM_FLAG_DESC);
}

template <size_t index>
ucs_status_t cb(void *arg, void *data, size_t length, unsigned flags)
{
    return handle(handlers.of[index].cb, arg, data, length, flags);
}

template <size_t index>
ucs_status_t proxy_cb(void *arg, void *data, size_t length, unsigned flags)
{
    return handle(handlers.of[index].proxy_cb, arg, data, length, flags);
}

template <size_t index>
ucs_status_t memh_get(void *context, void *address, size_t length,
                      ucs_memory_type_t mem_type, uint64_t md_map,
                      unsigned flags, const char *name, void **memh)
{
    ucp_memh_get_function *const ucp = memh_getters.of[index];

    if (mem_type == UCS_MEMORY_TYPE_HOST) {
        return ucp(context, address, length, mem_type, md_map, flags, name,
                   memh);
    }
    return memhs_by.load()({ucp, context, reinterpret_cast<uintptr_t>(address),
                            length, mem_type, md_map, flags, name, memh});
}

struct replacements {
    atomic_handlers atomics;
    ucp_memh_get_function *memh_get;
};

template <size_t... indices>
constexpr auto make_ours(std::index_sequence<indices...>)
{
    return std::array{
        replacements{{cb<indices>, proxy_cb<indices>}, memh_get<indices>}...};
}
constexpr auto ours = make_ours(std::make_index_sequence<max_ucps>());

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

const char *divert_atomics(const library &ucp, do_atomic by)
{
    auto *const handler = static_cast<ucp_am_handler_t *>(
        ucp.own_symbol("ucp_am_handler_UCP_AM_ID_ATOMIC_REQ"));
    ucp_am_handler_t now;

    if (handler == nullptr) {
        return nullptr;
    }
    if (!read_memory(handler, &now) || (now.features != feature_amo)) {
        return "its handler is not as it is known";
    }
    const bool is_its_own =
        ucp.has(reinterpret_cast<const void *>(now.cb)) &&
        ucp.has(reinterpret_cast<const void *>(now.proxy_cb));
    const std::lock_guard<std::mutex> guard(mutex);
    if (std::ranges::find(ours, handler->cb, [](const replacements &each) {
            return each.atomics.cb;
        }) != ours.end()) {
        return nullptr;
    }
    if (!is_its_own) {
        return "its handler is another library's";
    }
    if (!is_writable(&handler->cb) || !is_writable(&handler->proxy_cb)) {
        return "its handler cannot be written";
    }
    const size_t index = handlers.add({handler->cb, handler->proxy_cb});
    if (index == max_ucps) {
        return too_many;
    }
    atomics_by = by;
    // Other threads may be creating workers.
    std::atomic_ref(handler->cb).store(ours[index].atomics.cb);
    std::atomic_ref(handler->proxy_cb).store(ours[index].atomics.proxy_cb);
    return nullptr;
}

const char *divert_memh_get(const library &ucp, get_memh by)
{
    constexpr char name[] = "ucp_memh_get_slow";
    auto *const original =
        reinterpret_cast<ucp_memh_get_function *>(ucp.own_symbol(name));

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
    const std::lock_guard<std::mutex> guard(mutex);
    const size_t index = memh_getters.add(original);
    if (index == max_ucps) {
        return too_many;
    }
    memhs_by         = by;
    void *const mine = reinterpret_cast<void *>(ours[index].memh_get);
    return ((*slot == mine) || store(slot, mine))
               ? nullptr
               : "its table of functions cannot be written";
}

} // namespace ucx_ib_dmabuf
