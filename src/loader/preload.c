/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * LD_PRELOAD this where UCX cannot find plug-ins by itself (before 1.22). It
 * stands before UCX's ucs_load_modules(), which libuct calls for its modules,
 * and opens the plug-in after them. In a process without UCX it does nothing:
 * it has no constructor and needs no library but libc.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PLUGIN "libuct_ib_dmabuf.so.0"

typedef void (*load_modules_func_t)(const char *framework, const char *modules,
                                    void *init_once, unsigned flags);
typedef int (*module_init_func_t)(void);

void ucs_load_modules(const char *framework, const char *modules,
                      void *init_once, unsigned flags);

static void complain(const char *path, const char *why)
{
    fprintf(stderr,
            "ucx-ib-dmabuf: cannot load %s: %s. Messages in GPU memory are "
            "staged through host memory. Install the plug-in beside "
            "libucx_ib_dmabuf_preload.so or name it in UCX_IB_DMABUF_MODULE\n",
            path, why);
}

/* 1 if the file is there and was opened, or was there and could not be. */
static int open_plugin(const char *path, int must_exist)
{
    module_init_func_t init;
    FILE *file;
    void *dl;

    file = fopen(path, "r");
    if (file == NULL) {
        if (must_exist) {
            complain(path, "no such file, or not readable");
        }
        return must_exist;
    }
    fclose(file);

    dl = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (dl == NULL) {
        complain(path, dlerror());
        return 1;
    }
    *(void **)&init = dlsym(dl, "ucs_module_global_init");
    if (init == NULL) {
        complain(path, "it is another library");
        return 1;
    }
    init();
    return 1;
}

/* Beside this library, or in UCX's module directory below it. */
static void load_plugin(void)
{
    static const char *const folders[] = {"", "ucx/"};
    const char *named                  = getenv("UCX_IB_DMABUF_MODULE");
    char path[PATH_MAX]                = PLUGIN;
    const char *slash;
    Dl_info self;
    void *uct_ib;
    size_t i;

    /* Without UCX's InfiniBand module there is nothing to do. */
    uct_ib = dlopen("libuct_ib.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (uct_ib == NULL) {
        return;
    }
    dlclose(uct_ib);

    if ((named != NULL) && (named[0] != '\0')) {
        open_plugin(named, 1);
        return;
    }
    if (!dladdr((void *)load_plugin, &self) ||
        ((slash = strrchr(self.dli_fname, '/')) == NULL)) {
        complain(PLUGIN, "its folder is not known");
        return;
    }
    for (i = 0; i < sizeof(folders) / sizeof(folders[0]); ++i) {
        snprintf(path, sizeof(path), "%.*s/%s" PLUGIN,
                 (int)(slash - self.dli_fname), self.dli_fname, folders[i]);
        if (open_plugin(path, 0)) {
            return;
        }
    }
    complain(path, "no such file");
}

/*
 * UCX's own function, as the calling library would have found it: libucs may
 * be loaded RTLD_LOCAL, where RTLD_NEXT does not look.
 */
static load_modules_func_t find_next(void *caller)
{
    load_modules_func_t next = NULL;
    void *library;
    Dl_info info;

    if (dladdr(caller, &info)) {
        library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            *(void **)&next = dlsym(library, "ucs_load_modules");
            dlclose(library);
        }
    }
    if ((next == NULL) || (next == ucs_load_modules)) {
        *(void **)&next = dlsym(RTLD_NEXT, "ucs_load_modules");
    }
    if (next == NULL) {
        /* libucs calls it last in its constructor: the caller is ld.so. */
        library = dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            *(void **)&next = dlsym(library, "ucs_load_modules");
            dlclose(library);
        }
    }
    return next;
}

/* As UCX reads it; what is no switch at all is reported by the plug-in. */
static int is_enabled(void)
{
    static const char *const off[] = {"n", "no", "off", "0", "false"};
    const char *value              = getenv("UCX_IB_DMABUF_ENABLE");
    size_t i;

    for (i = 0; (value != NULL) && (i < sizeof(off) / sizeof(off[0])); ++i) {
        if (strcasecmp(value, off[i]) == 0) {
            return 0;
        }
    }
    return 1;
}

/*
 * UCP of UCX 1.13 asks for the whole allocation that a CUDA buffer is in. The
 * plug-in's cache does that by itself, and does better: pools larger than
 * UCX_IB_DMABUF_CHUNK_SIZE in pieces, and host copies, where there must be
 * some, of the message only. UCP's setting has no other way in than the
 * environment; libucs calls from its constructor, before any UCP reads it.
 */
static void register_what_is_used(void)
{
    if (is_enabled()) {
        setenv("UCX_MEMTYPE_REG_WHOLE_ALLOC_TYPES", "rocm", 0);
    }
}

__attribute__((visibility("default"))) void
ucs_load_modules(const char *framework, const char *modules, void *init_once,
                 unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    load_modules_func_t next   = find_next(__builtin_return_address(0));

    if (next == NULL) {
        complain(PLUGIN, "this UCX has no ucs_load_modules");
        return;
    }
    next(framework, modules, init_once, flags);
    if (strcmp(framework, "ucs") == 0) {
        register_what_is_used();
    } else if (strcmp(framework, "uct") == 0) {
        pthread_once(&once, load_plugin);
    }
}
