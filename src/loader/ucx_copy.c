/*
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "ucx_copy.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

static void *open_loaded(const char *path)
{
    return dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

void *loaded_symbol(const char *library, const char *symbol)
{
    void *dl    = open_loaded(library);
    void *found = NULL;

    if (dl != NULL) {
        found = dlsym(dl, symbol);
        dlclose(dl);
    }
    return found;
}

int is_same_library(const void *one, const void *other)
{
    Dl_info a, b;

    return dladdr(one, &a) && dladdr(other, &b) && (a.dli_fbase == b.dli_fbase);
}

const char *path_of(const void *address)
{
    Dl_info info;

    return dladdr(address, &info) ? info.dli_fname : "an unknown library";
}

/* The paths of all libraries. */
typedef struct {
    char **paths;
    size_t count;
} libraries_t;

static int collect(struct dl_phdr_info *info, size_t size, void *arg)
{
    libraries_t *all = arg;
    char **paths;

    (void)size;
    /* The program has no name here, and the kernel's object no path. */
    if ((info->dlpi_name == NULL) || (strchr(info->dlpi_name, '/') == NULL)) {
        return 0;
    }
    paths = realloc(all->paths, (all->count + 1) * sizeof(*paths));
    if (paths == NULL) {
        return 1;
    }
    all->paths             = paths;
    all->paths[all->count] = strdup(info->dlpi_name);
    all->count += (all->paths[all->count] != NULL);
    return 0;
}

/*
 * Returns a symbol as found by a library that finds 'other' in the library that
 * 'inside' lies in.
 */
static void *find_beside(const char *symbol, const char *other,
                         const void *inside)
{
    libraries_t all = {NULL, 0};
    void *found     = NULL;

    /* Not during the iteration, which holds a lock of the dynamic loader. */
    dl_iterate_phdr(collect, &all);
    for (size_t i = 0; i < all.count; ++i) {
        void *dl = (found == NULL) ? open_loaded(all.paths[i]) : NULL;
        if (dl != NULL) {
            const void *beside = dlsym(dl, other);
            if ((beside != NULL) && is_same_library(beside, inside)) {
                found = dlsym(dl, symbol);
            }
            dlclose(dl);
        }
        free(all.paths[i]);
    }
    free(all.paths);
    return found;
}

/* Searches a library and its dependencies, under any name, however loaded. */
static void *find_around(const void *inside, const char *symbol,
                         const void *not_this)
{
    struct link_map *map = NULL;
    void *found          = NULL;
    Dl_info info;

    if (dladdr1(inside, &info, (void **)&map, RTLD_DL_LINKMAP) &&
        (map->l_name[0] != '\0')) {
        found = loaded_symbol(map->l_name, symbol);
        /* libucm needs no library, but calls the libucs that needs it. */
        if ((found == NULL) || (found == not_this)) {
            found = find_beside(symbol, "ucm_event_dispatch", inside);
        }
    }
    return (found == not_this) ? NULL : found;
}

void *ucx_copy_symbol(const void *inside, const void *caller,
                      const char *symbol, const void *not_this)
{
    void *found = find_around(inside, symbol, not_this);

    if ((found == NULL) && (caller != NULL)) {
        found = find_around(caller, symbol, not_this);
    }
    /* Else as the dynamic linker would bind it without this library. */
    return (found == NULL) ? dlsym(RTLD_NEXT, symbol) : found;
}
