// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <sys/mman.h>

namespace ucx_ib_dmabuf::test {

/**
 * While it exists, the function has another first byte, as under a uprobe. The
 * thread sanitizer has no shadow memory for code.
 */
class first_byte {
public:
    __attribute__((no_sanitize("thread")))
    first_byte(void *function, uint8_t byte)
        : code_(static_cast<uint8_t *>(function)), before_(*code_)
    {
        write(byte);
    }
    ~first_byte() { write(before_); }
    first_byte(const first_byte &)            = delete;
    first_byte &operator=(const first_byte &) = delete;

private:
    __attribute__((no_sanitize("thread"))) void write(uint8_t byte)
    {
        const uintptr_t page = uintptr_t(code_) & ~uintptr_t(4095);
        mprotect(reinterpret_cast<void *>(page), 4096,
                 PROT_READ | PROT_WRITE | PROT_EXEC);
        *code_ = byte;
    }

    uint8_t *code_;
    const uint8_t before_;
};

} // namespace ucx_ib_dmabuf::test
