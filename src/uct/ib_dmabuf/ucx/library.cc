// SPDX-License-Identifier: BSD-3-Clause
#include "library.h"
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <new>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

// The loader's record of a library.
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
std::vector<library> library::all()
{
    std::vector<std::string> paths;
    std::vector<library> opened;
    const auto add = [](dl_phdr_info *info, size_t, void *arg) {
        try {
            static_cast<std::vector<std::string> *>(arg)->emplace_back(
                info->dlpi_name);
            return 0;
        } catch (const std::bad_alloc &) {
            return 1;
        }
    };
    if (dl_iterate_phdr(add, &paths) != 0) {
        throw std::bad_alloc();
    }
    opened.reserve(paths.size());
    for (const std::string &path : paths) {
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
        if (strcmp(names + symbols[ELF64_R_SYM(each.r_info)].st_name, name) ==
            0) {
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

// write(2) checks that the pages exist, and process_vm_readv(2) is forbidden in
// some containers. A plain system call, as the address sanitizer intercepts
// write().
bool read_memory(const void *from, void *to, size_t length)
{
    const auto size = static_cast<ssize_t>(length);
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    const bool good = (syscall(SYS_write, ends[1], from, length) == size) &&
                      (syscall(SYS_read, ends[0], to, length) == size);
    close(ends[0]);
    close(ends[1]);
    return good;
}

bool is_writable(void *word)
{
    return read_memory(word, word, sizeof(void *)); // rewrites the same bytes
}

} // namespace ucx_ib_dmabuf
