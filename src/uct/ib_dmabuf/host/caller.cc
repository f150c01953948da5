// SPDX-License-Identifier: BSD-3-Clause
#include "caller.h"
#include "types.h"
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <unwind.h>

namespace ucx_ib_dmabuf {
namespace {

// Ours and UCT's: deeper than this the caller is not.
constexpr int max_frames = 12;

struct walk {
    const char *wanted;
    int frames = 0;
    bool found = false;
};

bool is_ours(const Dl_info &info)
{
    static const void *const base = [] {
        Dl_info self{};
        dladdr(&max_frames, &self);
        return self.dli_fbase;
    }();

    return info.dli_fbase == base;
}

_Unwind_Reason_Code visit(_Unwind_Context *context, void *arg)
{
    auto &state        = *static_cast<walk *>(arg);
    const uintptr_t ip = _Unwind_GetIP(context);
    Dl_info info{};

    // A return address may lie behind the caller's last instruction.
    if ((++state.frames > max_frames) || (ip == 0) ||
        (dladdr(reinterpret_cast<void *>(ip - 1), &info) == 0)) {
        return _URC_END_OF_STACK;
    }
    // UCT's function may have left the stack before it called ours.
    if (is_ours(info) ||
        ((info.dli_sname != nullptr) &&
         (strncmp(info.dli_sname, "uct_md_mem_reg", 14) == 0))) {
        return _URC_NO_REASON;
    }
    state.found = (info.dli_sname != nullptr) &&
                  (strcmp(info.dli_sname, state.wanted) == 0);
    return _URC_END_OF_STACK;
}

// Whether UCT was called by that function of another library, which exports it.
// Some microseconds. No address is remembered: another library may be loaded
// there by the next time.
bool uct_is_called_by(const char *name)
{
    walk state{name};

    _Unwind_Backtrace(visit, &state);
    return state.found;
}

} // namespace

// A copy must not outlive its operation: it would go stale. UCP registers for
// one operation with these flags alone, in ucp_mem_rereg_mds(). ucp_mem_map()
// adds atomic access, the new protocols ask for less; pools of GPU fragments,
// which last, have the same flags but another function (ucp_memh_get_slow). No
// settings are read for it: they may come from anywhere.
bool ucp_registers_for_one_operation(uint64_t flags)
{
    return (flags == UCT_MD_MEM_ACCESS_RMA) &&
           uct_is_called_by("ucp_mem_rereg_mds");
}

} // namespace ucx_ib_dmabuf
