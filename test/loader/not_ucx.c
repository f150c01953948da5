/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Libraries that define uct_ib_component without being UCX's. not_ucx.tap
 * compiles them.
 */
#include <stdio.h>
#include <sys/mman.h>

#define PAGE __attribute__((aligned(4096)))

typedef struct {
    char name[16];
    void *query_md_resources;
    int (*md_open)(void);
    char more[4096 - 32];
} component_t;

static int md_open(void)
{
    return -1;
}

#if defined(READ_ONLY)
/* The loader relocates its pointer and then write-protects it (RELRO). */
PAGE const component_t uct_ib_component = {"ib", 0, md_open, ""};
#else
PAGE component_t uct_ib_component = {"ib", 0, md_open, ""};
#endif

#if defined(VERSION)
/* UCP in the same library: it reports the version of this libuct. */
const char *ucp_get_version_string(void)
{
    return VERSION;
}
#endif

#if defined(PACKS)
/* Calls the MD's mkey_pack with PACKS arguments. UCX itself got the function
 * below with the six arguments, in 1.16; vendors' snapshots got it before. */
typedef signed char status_t;
typedef status_t pack4_t(void *, void *, void *, void *);
typedef status_t pack6_t(void *, void *, void *, long, void *, void *);

status_t uct_md_mkey_pack(void *md, void *memh, void *buffer)
{
    void *const pack = (*(void ***)md)[8];
    long params      = 0;

    return (PACKS == 4) ? ((pack4_t *)pack)(md, memh, &params, buffer)
                        : ((pack6_t *)pack)(md, memh, 0, -1, &params, buffer);
}

void uct_ib_iface_resolve_remote_flid(void) {}
#endif

#if defined(WITHOUT_CUDA)
/* The functions that the plug-in's cuda_copy calls in libuct 1.16, which has no
 * call to query attributes. uct_component_register() opens the new component's
 * MD and prints the attributes that its query sets in a cleared struct. */
typedef signed char open_t(component_t *, const char *, void *, void ****);
typedef signed char query_t(void *, unsigned long long *);

char uct_self_tl[256] = "self";

void uct_component_register(component_t *component)
{
    unsigned long long attr[512] = {0};
    void ***md;

    ((open_t *)component->md_open)(component, component->name, 0, &md);
    ((query_t *)(*md)[1])(md, attr);
    for (unsigned i = 0; i < 512; ++i) {
        if (attr[i] != 0) {
            fprintf(stderr, "attribute at %u: %llx\n", 8 * i, attr[i]);
        }
    }
}

#define STUB(name)                                                             \
    void name(void) {}
STUB(uct_tl_register)
STUB(uct_md_query_single_md_resource)
STUB(uct_single_device_resource)
STUB(uct_md_stub_rkey_unpack)
STUB(uct_base_rkey_compare)
STUB(uct_base_iface_estimate_perf)
#endif

#if defined(UNREADABLE)
__attribute__((constructor)) static void hide(void)
{
    mprotect(&uct_ib_component, sizeof(uct_ib_component), PROT_NONE);
}
#endif
