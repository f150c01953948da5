// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ucx_ib_dmabuf {

// A loaded library or the program; it stays loaded while this object lives.
// Calls the dynamic loader: the caller must hold no lock.
class library {
public:
    library() = default;
    // `path` is a file's path, or a soname; the program's is "". Never loads a
    // library.
    explicit library(const char *path);
    static library around(const void *address);
    // The program and all global libraries.
    static library everything() { return library(""); }
    // The loaded libraries, and the program, that define one of the symbols
    // themselves. May throw std::bad_alloc.
    static std::vector<library> defining(std::span<const char *const> symbols);
    // Grows with each library that is loaded.
    static uint64_t count_loaded();

    explicit operator bool() const { return handle_ != nullptr; }
    // Looks in the library and its dependencies only.
    void *symbol(const char *name) const;
    template <class Function>
    Function *symbol(const char *name) const
    {
        return reinterpret_cast<Function *>(symbol(name));
    }
    // Returns whether the symbol exists.
    template <class Pointer>
    bool find(const char *name, Pointer *out) const
    {
        *out = reinterpret_cast<Pointer>(symbol(name));
        return *out != nullptr;
    }
    bool has(const void *address) const;
    // Looks in the library only.
    void *own_symbol(const char *name) const
    {
        void *found = symbol(name);
        return has(found) ? found : nullptr;
    }
    // Returns the slot of a function in the table by which the library calls it
    // (DT_JMPREL); nullptr if it has none.
    void **import_slot(const char *name) const;
    bool is_program() const;
    const char *path() const; // for messages

private:
    struct closer {
        void operator()(void *handle) const;
    };
    std::unique_ptr<void, closer> handle_;
};

// Each libucs and each libuct_ib has one of its own.
constexpr char symbol_of_ucs[]    = "ucs_log_dispatch";
constexpr char symbol_of_uct_ib[] = "uct_ib_component";

// Looks up symbols of one UCX instance, and remembers the first missing one.
class symbols {
public:
    explicit symbols(const library &ucx)
        : ucx_(ucx), all_(library::everything()),
          is_global_(all_.symbol(symbol_of_ucs) == ucx.symbol(symbol_of_ucs))
    {
    }

    template <class Pointer>
    void find(const char *name, Pointer *out)
    {
        found(name, ucx_.symbol(name), out);
    }
    // A program that is linked with this UCX may contain the variable (a copy
    // relocation).
    template <class Pointer>
    void find_variable(const char *name, Pointer *out)
    {
        found(name, (is_global_ ? all_ : ucx_).symbol(name), out);
    }
    const char *missing() const { return missing_; }

private:
    template <class Pointer>
    void found(const char *name, void *symbol, Pointer *out)
    {
        if ((symbol == nullptr) && (missing_ == nullptr)) {
            missing_ = name;
        }
        *out = reinterpret_cast<Pointer>(symbol);
    }

    const library &ucx_;
    const library all_;
    const bool is_global_; // this UCX's symbols are in the global scope
    const char *missing_ = nullptr;
};

// Reads less than a page. Returns false unless all of it is readable.
bool read_memory(const void *from, void *to, size_t length);

// Whether a word is writable.
bool is_writable(void *word);

template <class Type>
bool read_memory(const void *from, Type *to)
{
    return read_memory(from, to, std::span(to, 1).size_bytes());
}

// Reads a table of functions up to its unknown end: as many words as there are
// in readable memory, and as have room.
void read_table(void *const *from, std::span<void *> to);

} // namespace ucx_ib_dmabuf
