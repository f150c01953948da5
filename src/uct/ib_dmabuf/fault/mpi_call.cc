// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_call.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unwind.h>

namespace ucx_ib_dmabuf {
namespace {

// One that is loaded.
struct library {
    uintptr_t base          = 0;
    const ElfW(Dyn) *tables = nullptr; // null: there is none
    const char *path        = nullptr;
};

// What a library exports, read from its tables: dladdr() waits for a lock.
class exports {
public:
    explicit exports(const library &from) : base_(from.base)
    {
        for (const ElfW(Dyn) *entry = from.tables; entry->d_tag != DT_NULL;
             ++entry) {
            switch (entry->d_tag) {
            case DT_SYMTAB:
                symbols_ = at<ElfW(Sym)>(entry);
                break;
            case DT_STRTAB:
                names_ = at<char>(entry);
                break;
            case DT_GNU_HASH:
                hash_ = at<uint32_t>(entry);
                break;
            }
        }
    }

    // The name of the function that an address lies in, that begins with MPI_
    // or, where a tool stands before it, PMPI_. Of an MPI without one "": a
    // function may have gone on in another by a jump, as MPICH's MPI_Waitall
    // does. Null: it is none of MPI's.
    const char *mpi_function(uintptr_t address) const
    {
        const char *found = nullptr;

        if ((symbols_ == nullptr) || (names_ == nullptr) ||
            (hash_ == nullptr)) {
            return nullptr;
        }
        for (uint32_t i = 0, count = size(); i < count; ++i) {
            const ElfW(Sym) &one = symbols_[i];
            const char *name     = names_ + one.st_name;
            if (one.st_shndx == SHN_UNDEF) {
                continue;
            }
            if ((found == nullptr) && (strcmp(name, "PMPI_Init") == 0)) {
                found = "";
            }
            if (address - base_ - one.st_value >= one.st_size) {
                continue;
            }
            if (strncmp(name, "MPI_", 4) == 0) {
                return name;
            }
            if (strncmp(name, "PMPI_", 5) == 0) {
                found = name + 1;
            }
        }
        return found;
    }

private:
    // glibc has relocated these, the kernel's own library has not.
    template <class Type>
    const Type *at(const ElfW(Dyn) * entry) const
    {
        const uintptr_t value = entry->d_un.d_ptr;
        return reinterpret_cast<const Type *>((value < base_) ? value + base_
                                                              : value);
    }

    // Of the table of symbols: the hash table knows those that are defined.
    uint32_t size() const
    {
        const uint32_t buckets = hash_[0], first = hash_[1], words = hash_[2];
        const uint32_t *bucket =
            hash_ + 4 + words * (sizeof(ElfW(Addr)) / sizeof(*hash_));
        const uint32_t *chain = bucket + buckets;
        uint32_t last         = 0;
        for (uint32_t i = 0; i < buckets; ++i) {
            last = std::max(last, bucket[i]);
        }
        if (last < first) {
            return 0;
        }
        while ((chain[last - first] & 1) == 0) {
            ++last;
        }
        return last + 1;
    }

    const uintptr_t base_;
    const ElfW(Sym) *symbols_ = nullptr;
    const char *names_        = nullptr;
    const uint32_t *hash_     = nullptr;
};

struct search {
    uintptr_t address;
    library found;
};

// Called by dl_iterate_phdr().
int look_at_library(dl_phdr_info *info, size_t, void *arg)
{
    auto &wanted   = *static_cast<search *>(arg);
    bool is_inside = false;
    library looked{info->dlpi_addr, nullptr, info->dlpi_name};

    for (size_t i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) &part = info->dlpi_phdr[i];
        const uintptr_t start  = info->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_DYNAMIC) {
            looked.tables = reinterpret_cast<const ElfW(Dyn) *>(start);
        } else if (part.p_type == PT_LOAD) {
            is_inside |= wanted.address - start < part.p_memsz;
        }
    }
    if (is_inside) {
        wanted.found = looked;
    }
    return is_inside;
}

library library_around(uintptr_t address)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE // glibc 2.35
    dl_find_object object{};
    if (_dl_find_object(reinterpret_cast<void *>(address), &object) != 0) {
        return {};
    }
    // The one in src/glibc has none.
    if (const link_map *map = object.dlfo_link_map) {
        return {map->l_addr, map->l_ld, map->l_name};
    }
#endif
    // Waits while the list of libraries changes, unlike dladdr() not while the
    // constructors of new ones run, which may wait for this thread.
    search wanted{address, {}};
    dl_iterate_phdr(look_at_library, &wanted);
    return wanted.found;
}

_Unwind_Reason_Code look_at_frame(_Unwind_Context *frame, void *arg)
{
    auto &result            = *static_cast<mpi_call *>(arg);
    int is_exact            = 0;
    const uintptr_t returns = _Unwind_GetIPInfo(frame, &is_exact);
    const uintptr_t address = returns - (is_exact == 0); // in the call
    const library around    = library_around(address);

    if (around.tables == nullptr) {
        return _URC_NO_REASON;
    }
    const char *name = exports(around).mpi_function(address);
    // A program that has an MPI linked in has functions of its own, too.
    if ((name == nullptr) || ((*name == '\0') && (*around.path == '\0'))) {
        return _URC_NO_REASON;
    }
    if ((*name != '\0') || (result.name == nullptr)) {
        result.name = name;
    }
    if (result.library == nullptr) {
        result.library = around.path;
    }
    return _URC_NO_REASON;
}

} // namespace

mpi_call find_mpi_call() noexcept
{
    mpi_call result;

    _Unwind_Backtrace(look_at_frame, &result);
    return result;
}

} // namespace ucx_ib_dmabuf
