// SPDX-License-Identifier: BSD-3-Clause
#include "ucp.h"
#include "abi.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

constexpr char handler_name[] = "ucp_am_handler_UCP_AM_ID_ATOMIC_REQ";

// UCP's own functions, of each libucp. Entries are only added.
struct original {
    uct_am_callback_t cb;
    uct_am_callback_t proxy_cb;
};
std::array<original, 16> originals;
size_t count;
do_atomic done_by;

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
    if (!parse(received, length, &request) || !done_by(request, &before)) {
        return ucp(arg, data, length, flags);
    }
    received.header.address = reinterpret_cast<uintptr_t>(&before);
    return ucp(arg, &received, length, flags & ~UCT_CB_PARAM_FLAG_DESC);
}

// The arguments do not identify the libucp: each has functions of its own.
template <size_t index>
ucs_status_t cb(void *arg, void *data, size_t length, unsigned flags)
{
    return handle(originals[index].cb, arg, data, length, flags);
}
template <size_t index>
ucs_status_t proxy_cb(void *arg, void *data, size_t length, unsigned flags)
{
    return handle(originals[index].proxy_cb, arg, data, length, flags);
}

template <size_t... indices>
constexpr auto make_ours(std::index_sequence<indices...>)
{
    return std::array{original{cb<indices>, proxy_cb<indices>}...};
}
constexpr auto ours = make_ours(std::make_index_sequence<originals.size()>());

bool is_ours(uct_am_callback_t function)
{
    return std::ranges::find(ours, function, &original::cb) != ours.end();
}

// Returns nullptr, or why the handler cannot be replaced.
const char *check(const library &ucp, const ucp_am_handler_t *handler)
{
    ucp_am_handler_t now;

    if (!read_memory(handler, &now) || (now.features != feature_amo)) {
        return "its handler is not as it is known";
    }
    return (is_ours(now.cb) ||
            (ucp.has(reinterpret_cast<const void *>(now.cb)) &&
             ucp.has(reinterpret_cast<const void *>(now.proxy_cb))))
               ? nullptr
               : "its handler is another library's";
}

// Calls neither UCX nor the loader, as it holds the lock.
const char *replace(ucp_am_handler_t *handler, do_atomic by)
{
    static std::mutex mutex;
    const std::lock_guard<std::mutex> guard(mutex);
    size_t index = 0;

    if (is_ours(handler->cb)) {
        return nullptr;
    }
    // A library may have been closed and reopened.
    while ((index < count) && (originals[index].cb != handler->cb)) {
        ++index;
    }
    if (index == originals.size()) {
        return "too many others came first";
    }
    if (!is_writable(&handler->cb) || !is_writable(&handler->proxy_cb)) {
        return "its handler cannot be written";
    }
    done_by          = by;
    originals[index] = {handler->cb, handler->proxy_cb};
    count            = std::max(count, index + 1);
    // Other threads may be creating workers.
    std::atomic_ref(handler->cb).store(ours[index].cb);
    std::atomic_ref(handler->proxy_cb).store(ours[index].proxy_cb);
    return nullptr;
}

} // namespace

const char *divert_atomics(const library &ucp, do_atomic by)
{
    auto *const handler =
        static_cast<ucp_am_handler_t *>(ucp.own_symbol(handler_name));

    if (handler == nullptr) {
        return nullptr;
    }
    const char *why = check(ucp, handler);
    return (why == nullptr) ? replace(handler, by) : why;
}

} // namespace ucx_ib_dmabuf
