/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Replaces functions newer than glibc 2.28 that this machine's headers and
 * libstdc++ use. Linked with --with-glibc, and hidden from other libraries.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* glibc's number for struct stat; newer architectures have the kernel's. */
#if defined(__x86_64__)
#define STAT_VER 1
#else
#define STAT_VER 0
#endif

int __fxstat(int version, int fd, struct stat *buf);
int __fxstat64(int version, int fd, struct stat64 *buf);
int __xstat(int version, const char *path, struct stat *buf);
int __lxstat(int version, const char *path, struct stat *buf);

HIDDEN int fstat(int fd, struct stat *buf)
{
    return __fxstat(STAT_VER, fd, buf);
}

HIDDEN int fstat64(int fd, struct stat64 *buf)
{
    return __fxstat64(STAT_VER, fd, buf);
}

HIDDEN int stat(const char *restrict path, struct stat *restrict buf)
{
    return __xstat(STAT_VER, path, buf);
}

HIDDEN int lstat(const char *restrict path, struct stat *restrict buf)
{
    return __lxstat(STAT_VER, path, buf);
}

/* libstdc++ counts without atomics if this is set: never here. */
extern char __libc_single_threaded;
HIDDEN char __libc_single_threaded;

typedef struct {
    uintptr_t pc;
    struct dl_find_object *found;
} find_object_t;

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    find_object_t *find = arg;
    const void *frames  = NULL;
    int inside          = 0;

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start        = info->dlpi_addr + part->p_vaddr;

        if (part->p_type == PT_GNU_EH_FRAME) {
            frames = (const void *)start;
        } else if ((part->p_type == PT_LOAD) && (find->pc >= start) &&
                   (find->pc - start < part->p_memsz)) {
            inside                      = 1;
            find->found->dlfo_map_start = (void *)start;
            find->found->dlfo_map_end   = (void *)(start + part->p_memsz);
        }
    }
    if (!inside || (frames == NULL)) {
        return inside ? -1 : 0;
    }
    find->found->dlfo_eh_frame = (void *)frames;
    return 1;
}

/* For libgcc, which unwinds by dlfo_eh_frame and uses no other field. */
HIDDEN int _dl_find_object(void *pc, struct dl_find_object *found)
{
    find_object_t find = {(uintptr_t)pc, found};

    memset(found, 0, sizeof(*found));
    return (dl_iterate_phdr(look_at_object, &find) == 1) ? 0 : -1;
}

/* Headers of glibc 2.38 and later call these, which also read C23's 0b1. */
#define OLD_STRTO(TYPE, NAME)                                                  \
    TYPE old_##NAME(const char *text, char **end, int base) __asm__(#NAME);    \
    HIDDEN TYPE __isoc23_##NAME(const char *text, char **end, int base)        \
    {                                                                          \
        return old_##NAME(text, end, base);                                    \
    }

OLD_STRTO(long, strtol)
OLD_STRTO(long long, strtoll)
OLD_STRTO(unsigned long, strtoul)
OLD_STRTO(unsigned long long, strtoull)

int old_vsscanf(const char *text, const char *format,
                va_list args) __asm__("__isoc99_vsscanf");

HIDDEN int __isoc23_sscanf(const char *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int found = old_vsscanf(text, format, args);
    va_end(args);
    return found;
}
