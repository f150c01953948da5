// SPDX-License-Identifier: BSD-3-Clause
//
// A program with this file takes the host's pages for those of the simulated
// node: 64 KiB with CUDA_SIM_NODE=gb200, as do the simulated driver and the
// plug-in in it. Not for programs that install hooks: these change the access
// to whole pages of code, and libraries lie less than 64 KiB apart. Nor with
// gcc's thread sanitizer, which asks before it has started.
#ifndef __SANITIZE_THREAD__

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

extern "C" long sysconf(int name) noexcept
{
    static auto *const real =
        reinterpret_cast<long (*)(int)>(dlsym(RTLD_NEXT, "sysconf"));
    const char *const node = getenv("CUDA_SIM_NODE");

    return ((name == _SC_PAGESIZE) && (node != nullptr) &&
            (strcmp(node, "gb200") == 0))
               ? 65536
               : real(name);
}

#endif
