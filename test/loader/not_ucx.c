/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Libraries that define uct_ib_component and are not what they seem; as
 * not_ucx.tap compiles them.
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
/* Its pointer is relocated, and then write-protected (RELRO). */
PAGE const component_t uct_ib_component = {"ib", 0, md_open, ""};
#else
PAGE component_t uct_ib_component = {"ib", 0, md_open, ""};
#endif

#if defined(VERSION)
/* UCP in the same library: it tells the version, and belongs to this libuct. */
const char *ucp_get_version_string(void)
{
    return VERSION;
}
#endif

#if defined(PACKS)
/* A domain's mkey_pack with so many arguments; and a function that came with
 * those of 1.16 to UCX itself, but to vendors' snapshots before. */
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
/* What the plug-in's cuda_copy calls of a libuct of 1.16, which cannot be asked
 * for attributes. That of a new component says what its domain makes of cleared
 * ones. */
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
