/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A preload that interposes the driver as HAMi's does: dlsym() returns its own
 * functions.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#define DLSYM_VERSION "GLIBC_2.2.5"
#else
#define DLSYM_VERSION "GLIBC_2.17"
#endif

int cuMemFree_v2(uint64_t address);
void *interposed_dlsym(void *library, const char *name);

void *interposed_dlsym(void *library, const char *name)
{
    static void *(*original)(void *, const char *);

    if (original == NULL) {
        original = dlvsym(RTLD_NEXT, "dlsym", DLSYM_VERSION);
    }
    return original(library, name);
}

void *dlsym(void *restrict library, const char *restrict name)
{
    return strcmp(name, "cuMemFree_v2") ? interposed_dlsym(library, name)
                                        : (void *)cuMemFree_v2;
}

int cuMemFree_v2(uint64_t address)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*driver)(uint64_t);

    driver = interposed_dlsym(library, "cuMemFree_v2");
    return driver(address);
}
