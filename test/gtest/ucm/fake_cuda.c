/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A driver library for the tests of the hooks. It frees nothing, but counts its
 * calls. Unlike the simulated GPU it has entry points that only
 * cuGetProcAddress knows, and (FAKE_ODD) one that cannot be patched. With
 * FAKE_OLD it is a driver of CUDA 10, without pools.
 *
 * The compiler makes the functions, so that hooks meet ordinary prologues.
 */
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the driver's */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FAKE_NAMES 96

static struct {
    const char *name;
    unsigned long count;
} fake_journal[FAKE_NAMES];

/* The result of every function; whether the driver has forgotten pointers. */
int fake_result    = 0;
int fake_forgotten = 0;
int fake_active    = 1;
int fake_last      = 0; /* the primary context has one user */
int fake_capturing = 0;
/* Called inside each call, if set. */
void (*fake_inside)(const char *name) = NULL;
/* Answers queries about an address, if set. */
int (*fake_query)(uint64_t address) = NULL;
/* A stream captures in the global mode; calls that invalidated the capture. */
int fake_global_capture = 0;
int fake_invalidated    = 0;
static __thread int fake_capture_mode;
/* Bytes from each allocation to the next. */
size_t fake_step = 0;

static void fake_unsafe_call(void)
{
    if (fake_global_capture && (fake_capture_mode != 2 /* relaxed */)) {
        __atomic_add_fetch(&fake_invalidated, 1, __ATOMIC_RELAXED);
    }
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int previous = fake_capture_mode;

    fake_capture_mode = *mode;
    *mode             = previous;
    return 0;
}

static int fake_called(const char *name)
{
    int i;

    fake_unsafe_call();
    for (i = 0; i < FAKE_NAMES; ++i) {
        if (fake_journal[i].name == NULL) {
            fake_journal[i].name = name;
        }
        if (!strcmp(fake_journal[i].name, name)) {
            __atomic_add_fetch(&fake_journal[i].count, 1, __ATOMIC_RELAXED);
            break;
        }
    }
    if (fake_inside != NULL) {
        fake_inside(name);
    }
    return fake_result;
}

unsigned long fake_calls(const char *name)
{
    int i;

    for (i = 0; (i < FAKE_NAMES) && (fake_journal[i].name != NULL); ++i) {
        if (!strcmp(fake_journal[i].name, name)) {
            return fake_journal[i].count;
        }
    }
    return 0;
}

uint64_t fake_allocations = 0;

static uint64_t fake_new_address(void)
{
    return 0x7f0000000000 + fake_step * fake_allocations++;
}

#define FAKE(_name, _args)                                                     \
    int _name _args                                                            \
    {                                                                          \
        return fake_called(#_name);                                            \
    }

#define FAKE_ALLOC(_name, _args)                                               \
    int _name _args                                                            \
    {                                                                          \
        *address = fake_result ? 0 : fake_new_address();                       \
        return fake_called(#_name);                                            \
    }

/* The memory closed last: the next query reports it as unknown. */
static uint64_t fake_closed;

int cuIpcCloseMemHandle(uint64_t address)
{
    fake_closed = address & ~(uint64_t)0xffff;
    return fake_called("cuIpcCloseMemHandle");
}

FAKE(cuMemFree_v2, (uint64_t address))
FAKE(cuMemFreeHost, (void *address))
FAKE(cuCtxDestroy_v2, (void *context))
FAKE(cuCtxDestroy, (void *context))
FAKE(cuCtxDetach, (void *context))
FAKE(cuDevicePrimaryCtxReset, (int device))

int cuDevicePrimaryCtxRelease(int device)
{
    fake_active &= !fake_last;
    return fake_called("cuDevicePrimaryCtxRelease");
}

FAKE(cuModuleUnload, (uint64_t module))
FAKE_ALLOC(cuMemAlloc_v2, (uint64_t * address, size_t size))

#if defined(__x86_64__)
#define JUMP "jmp"
/* It cannot be moved. */
#define UNKNOWN_CODE "jrcxz 1f\n1: xor %eax, %eax\n nop\n ret\n"
#elif defined(__aarch64__)
#ifdef __ARM_FEATURE_BTI_DEFAULT
#define JUMP "hint #34\n b" /* behind a landing pad */
#else
#define JUMP "b"
#endif
#define UNKNOWN_CODE "ldr s0, 1f\n mov w0, #0\n ret\n1: .word 0\n"
#endif

#ifdef JUMP
/* The oldest version of a function only jumps to the next one. */
asm(".globl cuMemFree\n"
    ".type cuMemFree, %function\n"
    ".set fake_newer_free, cuMemFree_v2\n"
    ".p2align 4\n"
    "cuMemFree:\n" JUMP " fake_newer_free\n"
    ".p2align 4\n");
#endif

int cuModuleGetGlobal_v2(uint64_t *address, size_t *size, uint64_t module,
                         const char *name)
{
    *address = 0x7f1000000000;
    *size    = 0x400;
    return fake_called("cuModuleGetGlobal_v2");
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t address)
{
    fake_called("cuPointerGetAttribute");
    if (attribute == 2) { /* MEMORY_TYPE */
        *(int *)data = 2; /* a GPU's */
        if (fake_query != NULL) {
            return fake_query(address);
        }
        if (address == fake_closed) {
            fake_closed = 0;
            return 1;
        }
    }
    if (attribute == 11) { /* RANGE_START_ADDR */
        *(uint64_t *)data = address & ~(uint64_t)0xffff;
    } else if (attribute == 12) { /* RANGE_SIZE */
        *(size_t *)data = 0x10000;
    }
    return fake_forgotten;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    fake_called("cuDevicePrimaryCtxGetState");
    *active = fake_active;
    return 0;
}

/* Only cuGetProcAddress returns this function. */
static __attribute__((noinline)) int fake_inner_free(uint64_t address)
{
    return fake_called("fake_inner_free");
}

#ifndef FAKE_OLD

FAKE(cuMemFreeAsync, (uint64_t address, void *stream))
FAKE(cuMemFreeAsync_ptsz, (uint64_t address, void *stream))
FAKE(cuMemAddressFree, (uint64_t address, size_t size))
FAKE(cuMemPoolTrimTo, (uint64_t pool, size_t keep))
FAKE(cuMemPoolDestroy, (uint64_t pool))
FAKE(cuLibraryUnload, (uint64_t library))

int cuGreenCtxDestroy(void *context)
{
    fake_active &= !fake_last;
    return fake_called("cuGreenCtxDestroy");
}

int cuLibraryGetModule(uint64_t *module, uint64_t library)
{
    *module = library + 0x1000;
    return fake_called("cuLibraryGetModule");
}

FAKE(cuGraphExecDestroy, (void *graph))
FAKE(cuDeviceGraphMemTrim, (int device))
FAKE_ALLOC(cuMemAllocAsync, (uint64_t * address, size_t size, void *stream))
FAKE_ALLOC(cuMemAllocAsync_ptsz,
           (uint64_t * address, size_t size, void *stream))
FAKE_ALLOC(cuMemAllocFromPoolAsync,
           (uint64_t * address, size_t size, uint64_t pool, void *stream))

int cuStreamIsCapturing(void *stream, int *status)
{
    *status = (stream != NULL) ? fake_capturing : 0;
    return 0;
}

FAKE(cuArrayCreate_v2, (void *array, const void *description))
FAKE(cuArray3DCreate_v2, (void *array, const void *description))
FAKE(cuMipmappedArrayCreate,
     (void *array, const void *description, unsigned levels))

#if defined(FAKE_ODD) && defined(UNKNOWN_CODE)
#define FAKE_UNKNOWN_CODE(_name)                                               \
    asm(".globl " #_name "\n"                                                  \
        ".type " #_name ", %function\n" #_name ":\n" UNKNOWN_CODE)
FAKE_UNKNOWN_CODE(cuMemUnmap);
FAKE_UNKNOWN_CODE(cuMemCreate);
#else
FAKE(cuMemUnmap, (uint64_t address, size_t size))
FAKE(cuMemCreate,
     (uint64_t * handle, size_t size, const void *properties, uint64_t flags))
#endif

static __attribute__((noinline)) int fake_inner_free_async(uint64_t address,
                                                           void *stream)
{
    return fake_called("fake_inner_free_async");
}

#endif

/* A variant of a later CUDA, with other arguments. */
FAKE(fake_later_free, (uint64_t address, int node))

int fake_version = 13040;

int cuDriverGetVersion(int *version)
{
    *version = fake_version;
    return 0;
}

int cuGetProcAddress_v2(const char *name, void **address, int version,
                        uint64_t flags, int *found)
{
    *address = NULL;
    if (!strcmp(name, "cuMemFree") && (version >= 3020)) {
        *address = (version < 13050) ? (void *)fake_inner_free
                                     : (void *)fake_later_free;
    }
#ifndef FAKE_OLD
    if (!strcmp(name, "cuMemFreeAsync") && (flags == 2)) {
        *address = (void *)fake_inner_free_async;
    }
#endif
    return 0; /* also for unknown names */
}
