// SPDX-License-Identifier: BSD-3-Clause
#include "library.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <loader/defines.h>
#include <new>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

const link_map *map_of(void *handle)
{
    link_map *map = nullptr;

    if ((handle == nullptr) || (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)) {
        return nullptr;
    }
    return map;
}

const link_map *map_around(const void *address)
{
    Dl_info info;
    link_map *map = nullptr;

    return (dladdr1(address, &info, reinterpret_cast<void **>(&map),
                    RTLD_DL_LINKMAP) != 0)
               ? map
               : nullptr;
}

} // namespace

library::library(const char *path)
    : handle_(dlopen((path[0] == '\0') ? nullptr : path,
                     RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD))
{
}

void library::closer::operator()(void *handle) const
{
    dlclose(handle);
}

library library::around(const void *address)
{
    const link_map *map = map_around(address);
    return (map == nullptr) ? library() : library(map->l_name);
}

// The loader must not be called while it iterates.
std::vector<library> library::defining(std::span<const char *const> symbols)
{
    struct {
        std::span<const char *const> symbols;
        std::vector<std::string> paths;
    } found{symbols, {}};
    std::vector<library> opened;
    const auto add = [](dl_phdr_info *info, size_t, void *arg) {
        auto &to           = *static_cast<decltype(found) *>(arg);
        const auto defines = [&](const char *symbol) {
            return object_defines(info, symbol) != 0;
        };
        try {
            if (std::ranges::any_of(to.symbols, defines)) {
                to.paths.emplace_back(info->dlpi_name);
            }
            return 0;
        } catch (const std::bad_alloc &) {
            return 1;
        }
    };
    if (dl_iterate_phdr(add, &found) != 0) {
        throw std::bad_alloc();
    }
    opened.reserve(found.paths.size());
    for (const std::string &path : found.paths) {
        opened.emplace_back(path.c_str());
    }
    return opened;
}

uint64_t library::count_loaded()
{
    uint64_t count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *arg) {
            *static_cast<uint64_t *>(arg) = info->dlpi_adds;
            return 1; // the same in every record
        },
        &count);
    return count;
}

void *library::symbol(const char *name) const
{
    return (handle_ == nullptr) ? nullptr : dlsym(handle_.get(), name);
}

bool library::has(const void *address) const
{
    const link_map *map = map_of(handle_.get());
    return (map != nullptr) && (map == map_around(address));
}

void **library::import_slot(const char *name) const
{
    const link_map *map = map_of(handle_.get());
    if (map == nullptr) {
        return nullptr;
    }
    const auto entry = [map](ElfW(Sxword) tag) -> uintptr_t {
        const ElfW(Dyn) *each = map->l_ld;
        while ((each->d_tag != tag) && (each->d_tag != DT_NULL)) {
            ++each;
        }
        return (each->d_tag == tag) ? each->d_un.d_ptr : 0;
    };
    const auto *symbols = reinterpret_cast<const ElfW(Sym) *>(entry(DT_SYMTAB));
    const auto *names   = reinterpret_cast<const char *>(entry(DT_STRTAB));
    const std::span all(reinterpret_cast<const ElfW(Rela) *>(entry(DT_JMPREL)),
                        entry(DT_PLTRELSZ) / sizeof(ElfW(Rela)));
    for (const ElfW(Rela) & each : all) {
        if ((symbols != nullptr) && (names != nullptr) &&
            (strcmp(names + symbols[ELF64_R_SYM(each.r_info)].st_name, name) ==
             0)) {
            return reinterpret_cast<void **>(map->l_addr + each.r_offset);
        }
    }
    return nullptr;
}

bool library::is_program() const
{
    const link_map *map = map_of(handle_.get());
    return (map != nullptr) && (map->l_name[0] == '\0');
}

const char *library::path() const
{
    const link_map *map = map_of(handle_.get());
    return (map == nullptr)           ? "an unknown library"
           : (map->l_name[0] == '\0') ? "the program"
                                      : map->l_name;
}

// Lets the kernel read the word around an address. Some containers forbid
// process_vm_readv(2).
static bool is_readable(uintptr_t at)
{
    constexpr unsigned unlikely = 0x9e3779b9;
    constexpr timespec no_time{};

    return (syscall(SYS_futex, at & ~uintptr_t{3}, FUTEX_WAIT_PRIVATE, unlikely,
                    &no_time, nullptr, 0) == 0) ||
           ((errno != EFAULT) && (errno != EACCES));
}

constexpr size_t page = 4096; // pages may be larger

// Copies by itself, as sanitizers know only a part of what may be there.
__attribute__((no_sanitize("address", "thread"))) bool
read_memory(const void *from, void *to, size_t length)
{
    const auto begin     = reinterpret_cast<uintptr_t>(from);
    const uintptr_t last = begin + length - 1;
    const auto *at       = static_cast<const volatile char *>(from);

    if (!is_readable(begin) ||
        ((begin / page != last / page) && !is_readable(last))) {
        return false;
    }
    for (size_t i = 0; i < length; ++i) {
        static_cast<char *>(to)[i] = at[i];
    }
    return true;
}

void read_table(void *const *from, std::span<void *> to)
{
    size_t count = 0;

    for (size_t i = 0; i < to.size(); i += count) {
        const size_t rest =
            page - (reinterpret_cast<uintptr_t>(from + i) % page);
        count = std::clamp<size_t>(rest / sizeof(*from), 1, to.size() - i);
        if (!read_memory(from + i, &to[i], count * sizeof(*from))) {
            break;
        }
    }
}

// Has the kernel add 0 to the word.
bool is_writable(void *word)
{
    return syscall(SYS_futex, word, FUTEX_WAKE_OP_PRIVATE, 0, 0, word,
                   FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

} // namespace ucx_ib_dmabuf
