// SPDX-License-Identifier: BSD-3-Clause
#include "watched.h"
#include "code_patch.h"
#include <array>
#include <atomic>

namespace ucx_ib_dmabuf::ucm {
namespace {

std::array<watched_function, 128> watched;
std::atomic<size_t> watched_count;

} // namespace

void watch(const char *symbol, const void *code) noexcept
{
    const size_t count = watched_count.load(std::memory_order_relaxed);

    if (begins_with_jump(code) && (count < watched.size())) {
        watched[count] = {symbol, code};
        watched_count.store(count + 1, std::memory_order_release);
    }
}

std::span<const watched_function> watched_functions() noexcept
{
    return {watched.data(), watched_count.load(std::memory_order_acquire)};
}

bool is_changed(const watched_function &function) noexcept
{
    return !begins_with_jump(function.code);
}

} // namespace ucx_ib_dmabuf::ucm
