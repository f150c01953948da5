/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Libraries that define uct_ib_component and are not what they seem; as
 * not_ucx.tap compiles them.
 */
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
/* A domain's mkey_pack with so many arguments; and a function that came with those of
 * 1.16 to UCX itself, but to vendors' snapshots before. */
typedef signed char status_t;
typedef status_t pack4_t(void *, void *, void *, void *);
typedef status_t pack6_t(void *, void *, void *, long, void *, void *);

status_t uct_md_mkey_pack(void *md, void *memh, void *buffer)
{
    void *const pack = (*(void ***)md)[8];
    long params      = 0;

    return (PACKS == 4)
               ? ((pack4_t *)pack)(md, memh, &params, buffer)
               : ((pack6_t *)pack)(md, memh, 0, -1, &params, buffer);
}

void uct_ib_iface_resolve_remote_flid(void)
{
}
#endif

#if defined(UNREADABLE)
__attribute__((constructor)) static void hide(void)
{
    mprotect(&uct_ib_component, sizeof(uct_ib_component), PROT_NONE);
}
#endif
