/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "defines.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

/* NOLINTBEGIN(modernize-use-nullptr): C has none */

static inline void *open_loaded(const char *path)
{
    return dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

/* Returns a symbol of the library that is loaded under a name, else NULL. */
static inline void *loaded_symbol(const char *library, const char *symbol)
{
    void *dl    = open_loaded(library);
    void *found = NULL;

    if (dl != NULL) {
        found = dlsym(dl, symbol);
        dlclose(dl);
    }
    return found;
}

/*
 * The only libucs of this process. When UCX starts it reads some 20 tables, and
 * loads modules some 10 times: a search each time takes longer than all else
 * that is done here.
 */
static struct {
    atomic_flag busy;                    /* by a thread, maybe of the parent */
    unsigned long long loaded, unloaded; /* libraries, at the last look */
    size_t seen, count;                  /* libraries, and those that are it */
    char path[PATH_MAX];
    struct {
        const char *name;
        void *found;
    } symbols[5]; /* the four that this library uses, and none */
} only = {.busy = ATOMIC_FLAG_INIT};

/* Looks at the libraries that were loaded since the last time. */
static inline int note_libucs(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t *index    = arg;
    const char *name = info->dlpi_name; /* of the program "" */

    (void)size;
    if ((*index == 0) && (info->dlpi_adds == only.loaded) &&
        (info->dlpi_subs == only.unloaded)) {
        return 1;
    }
    if ((*index == 0) && (info->dlpi_subs != only.unloaded)) {
        memset(only.symbols, 0, sizeof(only.symbols));
        only.seen = only.count = 0;
    }
    only.loaded   = info->dlpi_adds;
    only.unloaded = info->dlpi_subs;
    if ((*index)++ < only.seen) {
        return 0;
    }
    only.seen = *index;
    /* The kernel's object has no path, and may have no table. */
    if (((name[0] == '\0') || (strchr(name, '/') != NULL)) &&
        object_defines(info, "ucs_log_dispatch")) {
        snprintf(only.path, sizeof(only.path), "%s", name);
        ++only.count;
    }
    return 0;
}

/*
 * Returns a symbol of the only one, else NULL; also while another thread is
 * here, for which it does not wait.
 */
static inline void *only_symbol(const char *symbol)
{
    void *found  = NULL;
    size_t index = 0;

    if (atomic_flag_test_and_set(&only.busy)) {
        return NULL;
    }
    dl_iterate_phdr(note_libucs, &index);
    if ((only.count == 1) && (strchr(only.path, '/') != NULL)) {
        size_t i = 0;
        while ((only.symbols[i].name != NULL) &&
               (strcmp(only.symbols[i].name, symbol) != 0)) {
            ++i;
        }
        if (only.symbols[i].name == NULL) {
            only.symbols[i].found = loaded_symbol(only.path, symbol);
            only.symbols[i].name  = symbol;
        }
        found = only.symbols[i].found;
    }
    atomic_flag_clear(&only.busy);
    return found;
}

/* NOLINTEND(modernize-use-nullptr) */
