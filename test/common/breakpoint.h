// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {

/**
 * While it exists, the function begins with a breakpoint, as under a uprobe.
 * The thread sanitizer has no shadow memory for code.
 */
class breakpoint {
#if defined(__aarch64__)
    using instruction                 = uint32_t;
    static constexpr instruction stop = 0xd42000a0; // brk #5
#else
    using instruction                 = uint8_t;
    static constexpr instruction stop = 0xcc; // int3
#endif

public:
    __attribute__((no_sanitize("thread"))) explicit breakpoint(void *function)
        : code_(static_cast<instruction *>(function)), before_(*code_)
    {
        write(stop);
    }
    ~breakpoint()
    {
        write(before_);
    }
    breakpoint(const breakpoint &)            = delete;
    breakpoint &operator=(const breakpoint &) = delete;

private:
    __attribute__((no_sanitize("thread"))) void write(instruction code)
    {
        const auto page       = uintptr_t(sysconf(_SC_PAGESIZE));
        const uintptr_t begin = uintptr_t(code_) & ~(page - 1);
        mprotect(reinterpret_cast<void *>(begin), page,
                 PROT_READ | PROT_WRITE | PROT_EXEC);
        *code_ = code;
        __builtin___clear_cache(reinterpret_cast<char *>(code_),
                                reinterpret_cast<char *>(code_ + 1));
    }

    instruction *code_;
    const instruction before_;
};

} // namespace ucx_ib_dmabuf::test
