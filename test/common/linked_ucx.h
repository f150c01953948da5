// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdio>
#include <cstdlib>
#include <uct/ib_dmabuf/ucx/library.h>
#include <uct/ib_dmabuf/ucx/settings.h>
#include <uct/ib_dmabuf/ucx/ucm.h>
#include <uct/ib_dmabuf/ucx/ucs.h>

namespace ucx_ib_dmabuf::test {

// For tests without uct_ib: makes the plug-in use the log, memory types and
// events of the program's own UCX, as it would for a UCX with uct_ib.
inline void use_linked_ucx()
{
    static ucs_functions ucs;
    static ucm_functions ucm;
    config_parser parser;
    const library all   = library::everything();
    const char *missing = look_up_ucs(all, &ucs);

    if ((missing != nullptr) || ((missing = parser.find(all)) != nullptr) ||
        ((missing = look_up_ucm(all, parser, &ucm)) != nullptr)) {
        fprintf(stderr, "no %s\n", missing);
        abort();
    }
    set_first_ucs(ucs);
    add_ucm(ucm);
}

} // namespace ucx_ib_dmabuf::test
