/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * LD_PRELOAD this for a UCX that cannot find plug-ins by itself (before 1.22).
 * It interposes UCX's ucs_load_modules(), which libuct calls to load its
 * modules, and opens the plug-in afterwards. Without UCX in the process it does
 * nothing: it has no constructor, and depends on libc only.
 */
#define _GNU_SOURCE
#include "defines.h"
#include "enable.h"
#include "libucs.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN  "libuct_ib_dmabuf.so.0"
#define EXPORTS __attribute__((visibility("default")))

typedef void (*load_modules_func_t)(const char *framework, const char *modules,
                                    void *init_once, unsigned flags);
/* The last argument exists before UCX 1.15 only. */
typedef int (*fill_opts_func_t)(void *opts, void *table, const char *prefix,
                                intptr_t fourth, int fifth);
typedef int (*query_components_func_t)(void **components, unsigned *count);
typedef void (*release_components_func_t)(void *components);
typedef int (*module_init_func_t)(void);

void ucs_load_modules(const char *framework, const char *modules,
                      void *init_once, unsigned flags);
int ucs_config_parser_fill_opts(void *opts, void *table, const char *prefix,
                                intptr_t fourth, int fifth);

static int is_same_library(const void *one, const void *other)
{
    Dl_info a, b;

    return dladdr(one, &a) && dladdr(other, &b) && (a.dli_fbase == b.dli_fbase);
}

static const char *path_of(const void *address)
{
    Dl_info info;

    return dladdr(address, &info) ? info.dli_fname : "an unknown library";
}

/* The paths of the libraries that define a symbol. */
typedef struct {
    const char *symbol;
    char **paths;
    size_t count;
} libraries_t;

static int collect(struct dl_phdr_info *info, size_t size, void *arg)
{
    libraries_t *all = arg;
    char **paths;

    (void)size;
    /* The program has no name here, and the kernel's object no path. */
    if ((info->dlpi_name == NULL) || (strchr(info->dlpi_name, '/') == NULL) ||
        !object_defines(info, all->symbol)) {
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
 * Returns a symbol of a library that finds 'other' in the library that 'inside'
 * lies in.
 */
static void *find_beside(const char *symbol, const char *other,
                         const void *inside)
{
    libraries_t all = {symbol, NULL, 0};
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

/*
 * Returns a symbol of the UCX that 'inside' (code or data) belongs to, as a
 * process may have loaded several UCX under different names with RTLD_LOCAL. If
 * 'inside' belongs to no UCX, but to the plug-in, say, returns the symbol of
 * the caller's UCX, unless 'caller' is NULL. Returns NULL if only 'not_this'
 * exists.
 */
static void *ucx_symbol(const void *inside, const void *caller,
                        const char *symbol, const void *not_this)
{
    void *found = only_symbol(symbol);

    if ((found == NULL) || (found == not_this)) {
        found = find_around(inside, symbol, not_this);
    }
    if ((found == NULL) && (caller != NULL)) {
        found = find_around(caller, symbol, not_this);
    }
    /* Else as the dynamic linker would bind it without this library. */
    return (found == NULL) ? dlsym(RTLD_NEXT, symbol) : found;
}

/*
 * The plug-in's start function, once it is open. No lock is held while it is
 * opened: threads that hold the dynamic loader's lock may wait for such a lock.
 * So several threads may open it at the same time.
 */
static _Atomic(module_init_func_t) plugin_init;
static atomic_bool complained;

/* Opens the file that the user names, or that is beside this library. */
static module_init_func_t open_plugin(void)
{
    /* A privileged program must not load a library that its user names. */
    const char *named       = secure_getenv("UCX_IB_DMABUF_MODULE");
    char path[PATH_MAX]     = PLUGIN;
    const char *why         = "it is another library";
    module_init_func_t init = NULL;
    const char *slash;
    Dl_info self;

    if ((named != NULL) && (named[0] != '\0')) {
        snprintf(path, sizeof(path), "%s", named);
    } else if (dladdr((void *)open_plugin, &self) &&
               ((slash = strrchr(self.dli_fname, '/')) != NULL)) {
        const int length = (int)(slash - self.dli_fname);
        snprintf(path, sizeof(path), "%.*s/" PLUGIN, length, self.dli_fname);
        if (access(path, F_OK) != 0) { /* UCX's module directory below it */
            snprintf(path, sizeof(path), "%.*s/ucx/" PLUGIN, length,
                     self.dli_fname);
        }
    }
    void *dl = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (dl == NULL) {
        why = dlerror();
    } else {
        *(void **)&init = dlsym(dl, "ucs_module_global_init");
    }
    if ((init == NULL) && (read_enable() != 0) &&
        !atomic_exchange(&complained, 1)) {
        fprintf(stderr,
                "ucx-ib-dmabuf: cannot load %s: %s. " WITHOUT_PLUGIN
                ". Install the plug-in beside libucx_ib_dmabuf_preload.so or "
                "name it in UCX_IB_DMABUF_MODULE\n",
                path, why);
    }
    return init;
}

/* After UCX has loaded modules, the plug-in looks for uct_ib among them. */
static void run_plugin(void)
{
    module_init_func_t init = atomic_load(&plugin_init);

    /* Even if switched off: UCX would report its settings as unknown. */
    if (init == NULL) {
        init = open_plugin();
        atomic_store(&plugin_init, init);
    }
    if (init != NULL) {
        init();
    }
}

/* init_once lies in the library that loads modules: it identifies the UCX. */
EXPORTS void ucs_load_modules(const char *framework, const char *modules,
                              void *init_once, unsigned flags)
{
    load_modules_func_t next;

    *(void **)&next = ucx_symbol(init_once, NULL, "ucs_load_modules",
                                 (void *)ucs_load_modules);
    if (next == NULL) {
        fprintf(stderr,
                "ucx-ib-dmabuf: %s loads modules of UCX, but no libucs was "
                "found for it: it goes without them\n",
                path_of(init_once));
        return;
    }
    next(framework, modules, init_once, flags);
    if (strcmp(framework, "uct") == 0) {
        run_plugin();
    }
}

/*
 * UCP reads its settings before it asks libuct for transports. The plug-in
 * changes the default of one setting, so it must be loaded before. A table
 * begins with its name, before UCX 1.15 with its first setting's or NULL.
 */
static void load_before_ucp_reads(const char *const *table)
{
    query_components_func_t query;
    release_components_func_t release;
    void *components;
    unsigned count;

    if ((*table == NULL) || (strcmp(*table, "UCP context") != 0)) {
        return;
    }
    *(void **)&query = ucx_symbol(table, NULL, "uct_query_components", NULL);
    *(void **)&release =
        ucx_symbol(table, NULL, "uct_release_component_list", NULL);
    if ((query != NULL) && (release != NULL) &&
        (query(&components, &count) == 0)) {
        release(components);
    }
}

EXPORTS int ucs_config_parser_fill_opts(void *opts, void *table,
                                        const char *prefix, intptr_t fourth,
                                        int fifth)
{
    fill_opts_func_t next;

    *(void **)&next = ucx_symbol(table, __builtin_return_address(0),
                                 "ucs_config_parser_fill_opts",
                                 (void *)ucs_config_parser_fill_opts);
    if (next == NULL) {
        return -12; /* UCS_ERR_NO_ELEM */
    }
    if (read_enable() != 0) {
        load_before_ucp_reads(table);
    }
    return next(opts, table, prefix, fourth, fifth);
}
