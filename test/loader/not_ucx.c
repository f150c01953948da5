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

#if defined(UNREADABLE)
__attribute__((constructor)) static void hide(void)
{
    mprotect(&uct_ib_component, sizeof(uct_ib_component), PROT_NONE);
}
#endif
