// SPDX-License-Identifier: BSD-3-Clause
//
// A failed transfer refutes the path only if host memory in the GPU's place
// works.
#include "transfer_check.h"

namespace ucx_ib_dmabuf {
namespace {

// Uses a new wire, as an error ends the last one. Tries once more after a
// timeout: the machine may have been busy.
verdict try_twice(const connector &connect, gpu_vendor &gpus, const place &gpu,
                  const place &host)
{
    for (bool again = false;; again = true) {
        const connection to = connect();
        if (!to.by) {
            return {finding::unknown, to.problem};
        }
        const verdict found = try_gpu(*to.by, gpus, gpu, host);
        if ((found.what != finding::refuted) || !to.by->is_silent() || again) {
            return found;
        }
    }
}

} // namespace

verdict prove(const connector &connect, gpu_vendor &gpus, const place &gpu,
              const place &host)
{
    const verdict found = try_twice(connect, gpus, gpu, host);

    if (found.what != finding::refuted) {
        return found;
    }
    const connection to = connect();
    if (!to.by) {
        return {finding::unknown, to.problem};
    }
    const std::optional<text> wrong = try_host(*to.by, gpus, host);
    if (!wrong) {
        return found;
    }
    return {finding::unknown,
            format("it does not reach itself with host memory in the place of "
                   "the GPU's (%s)",
                   wrong->c_str()),
            true};
}

} // namespace ucx_ib_dmabuf
