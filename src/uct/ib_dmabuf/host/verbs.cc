// SPDX-License-Identifier: BSD-3-Clause
#include "verbs.h"
#include "library.h"

namespace ucx_ib_dmabuf {
namespace {

// Whether somebody stands before libibverbs for the whole process: the dynamic
// linker has bound uct_ib to him. Another libibverbs that all see is none: it
// may be another UCX's.
bool is_interposed(const void *seen)
{
    const library around = library::around(seen);
    const void *list     = around.symbol("ibv_get_device_list");

    return around.is_program() || (list == nullptr) || !around.has(list);
}

void *bound(const library &uct_ib, const char *name)
{
    void *seen = library::everything().symbol(name);

    return ((seen != nullptr) && is_interposed(seen)) ? seen
                                                      : uct_ib.symbol(name);
}

template <class Function>
void find(const library &uct_ib, const char *name, Function *out,
          const char **missing)
{
    void *symbol = bound(uct_ib, name);

    *out = reinterpret_cast<Function>(symbol);
    if (symbol == nullptr) {
        *missing = name;
    }
}

} // namespace

const char *look_up_verbs(const library &uct_ib, verbs_functions *out)
{
    const char *missing = nullptr;

    find(uct_ib, "ibv_reg_dmabuf_mr", &out->reg_dmabuf, &missing);
    find(uct_ib, "ibv_reg_mr_iova", &out->reg_iova, &missing);
    find(uct_ib, "ibv_dereg_mr", &out->dereg, &missing);
    return missing;
}

} // namespace ucx_ib_dmabuf
