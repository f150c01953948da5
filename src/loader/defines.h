/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <link.h>
#include <stdint.h>
#include <string.h>

/* NOLINTBEGIN(modernize-use-nullptr): C has none */

/*
 * Returns whether a loaded object, as dl_iterate_phdr() passes it, defines a
 * dynamic symbol. Reads the object's hash table: to open each of many libraries
 * and to search its dependencies takes long. An object without such a table may
 * define the symbol.
 */
static inline int object_defines(const struct dl_phdr_info *object,
                                 const char *name)
{
    const ElfW(Addr) base    = object->dlpi_addr;
    const ElfW(Dyn) *dynamic = NULL;
    ElfW(Addr) hash = 0, symbols = 0, strings = 0;
    uint32_t wanted = 5381;

    for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            dynamic = (const ElfW(Dyn) *)(base + object->dlpi_phdr[i].p_vaddr);
        }
    }
    for (; (dynamic != NULL) && (dynamic->d_tag != DT_NULL) &&
           ((hash == 0) || (symbols == 0) || (strings == 0));
         ++dynamic) {
        ElfW(Addr) *to = (dynamic->d_tag == DT_GNU_HASH) ? &hash
                         : (dynamic->d_tag == DT_SYMTAB) ? &symbols
                         : (dynamic->d_tag == DT_STRTAB) ? &strings
                                                         : NULL;
        if (to != NULL) { /* the kernel's object has offsets */
            *to = dynamic->d_un.d_ptr;
            *to += (*to < base) ? base : 0;
        }
    }
    if ((hash == 0) || (symbols == 0) || (strings == 0)) {
        return 1;
    }
    for (const char *at = name; *at != '\0'; ++at) {
        wanted = wanted * 33 + (unsigned char)*at;
    }
    const uint32_t *head = (const uint32_t *)hash;
    const uint32_t *buckets =
        head + 4 + head[2] * (sizeof(hash) / sizeof(*head));
    const uint32_t *chains = buckets + head[0] - head[1];
    const uint32_t first   = (head[0] == 0) ? 0 : buckets[wanted % head[0]];

    for (uint32_t i = first; i >= head[1]; ++i) {
        const ElfW(Sym) *symbol = (const ElfW(Sym) *)symbols + i;
        if (((chains[i] ^ wanted) <= 1) &&
            (strcmp((const char *)strings + symbol->st_name, name) == 0)) {
            return 1;
        }
        if ((chains[i] & 1) != 0) { /* the chain's last one */
            break;
        }
    }
    return 0;
}

/* NOLINTEND(modernize-use-nullptr) */
