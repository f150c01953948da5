// SPDX-License-Identifier: BSD-3-Clause
#include "findings.h"
#include <algorithm>

namespace ucx_ib_dmabuf::info {

const char *name_of(state which)
{
    constexpr const char *names[] = {"ok", "warning", "fails"};
    return names[static_cast<unsigned>(which)];
}

state part::worst() const
{
    state result = state::ok;

    for (const check &each : checks) {
        result = std::max(result, each.how);
    }
    return result;
}

int report::status() const
{
    const auto fails = [](state how) { return how == state::fails; };

    if (std::ranges::any_of(pairs, fails, &pair::how) ||
        std::ranges::any_of(copies, fails, &part::worst)) {
        return 1;
    }
    return pairs.empty() ? 3 : 0;
}

} // namespace ucx_ib_dmabuf::info
