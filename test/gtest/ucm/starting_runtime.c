/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A runtime that initialises as CUDA's does: it retains the primary context
 * with its device mutex held. With CONSTRUCTOR it is a library with a
 * constructor that makes the first call of that runtime.
 */
#include <pthread.h>
#include <stddef.h>

void fake_runtime_call(void (*inside)(void));

#ifdef CONSTRUCTOR

extern void (*fake_on_constructor)(void);

__attribute__((constructor)) static void fake_constructor(void)
{
    fake_on_constructor();
    fake_runtime_call(NULL);
}

#else

int cuDevicePrimaryCtxRetain(void *context, int device);

static pthread_mutex_t fake_device = PTHREAD_MUTEX_INITIALIZER;

/* Called first by the constructor. */
void (*fake_on_constructor)(void);

void fake_runtime_call(void (*inside)(void))
{
    void *context;

    pthread_mutex_lock(&fake_device);
    if (inside != NULL) {
        inside();
    }
    cuDevicePrimaryCtxRetain(&context, 0);
    pthread_mutex_unlock(&fake_device);
}

#endif
