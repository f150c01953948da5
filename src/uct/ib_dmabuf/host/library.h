// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ucx_ib_dmabuf {

// A library, or the program, that is loaded; kept so for as long as this is.
// Calls the dynamic loader: no lock may be held.
class library {
public:
    library() = default;
    // By a path as all() has it, or by its soname. Never loads anything.
    explicit library(const char *path);
    // What an address lies in.
    static library around(const void *address);
    // What the program and all that is global define.
    static library everything();
    ~library();
    library(const library &)            = delete;
    library &operator=(const library &) = delete;
    library(library &&other) noexcept
        : handle_(std::exchange(other.handle_, nullptr))
    {
    }
    library &operator=(library &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }

    // Of all that is loaded; the program's is "". May throw std::bad_alloc.
    static std::vector<std::string> all();
    // Grows with each library that is loaded.
    static uint64_t count_loaded();

    explicit operator bool() const { return handle_ != nullptr; }
    // In the library and what it needs, as it would be found without all that
    // is global in the process.
    void *symbol(const char *name) const;
    template <class Function>
    Function *symbol(const char *name) const
    {
        return reinterpret_cast<Function *>(symbol(name));
    }
    // Whether the address is in the library itself.
    bool has(const void *address) const;
    bool is_program() const;
    // For messages.
    const char *path() const;

private:
    void *handle_ = nullptr;
};

// Reads memory that may not be there, less than a page. False if not all is.
bool read_memory(const void *from, void *to, size_t length);

// Whether a word, which nobody else is writing, can be written.
bool is_writable(void *word);

template <class Type>
bool read_memory(const void *from, Type *to)
{
    return read_memory(from, to, std::span(to, 1).size_bytes());
}

} // namespace ucx_ib_dmabuf
