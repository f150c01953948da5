// SPDX-License-Identifier: BSD-3-Clause
#include "pace.h"
#include "proof.h"
#include <algorithm>

namespace ucx_ib_dmabuf {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr uint32_t length = 16384; // bytes
constexpr int rounds      = 5;
constexpr int tolerated   = 2; // times as long

// Carries what is sent and, behind a write, a read that comes back when it is
// done.
bool carry(wire &nic, verb how, const place &local, const place &remote)
{
    const transfer all[] = {{how, local, remote, length},
                            {verb::read, local + length, remote, 1}};

    return !nic.carry({all, (how == verb::write) ? 2u : 1u});
}

// What it took, if that is the best so far. Whether it went well.
template <class What>
bool measure(const What &what, nanoseconds *best)
{
    const auto begin = steady_clock::now();
    const bool good  = what();

    *best = std::min(*best, nanoseconds(steady_clock::now() - begin));
    return good;
}

// Most paths are told from one round: more are for machines that others use.
// After a failure the wire carries nothing any more.
template <class Direct, class Staged>
std::optional<pace> compare(const char *way, const Direct &direct,
                            const Staged &staged, bool *failed)
{
    pace best{way, length, nanoseconds::max(), nanoseconds::max()};

    for (int i = 0; i < rounds; ++i) {
        *failed =
            !measure(direct, &best.direct) || !measure(staged, &best.staged);
        if (*failed || (best.direct / tolerated <= best.staged)) {
            return std::nullopt;
        }
    }
    return best;
}

} // namespace

std::optional<pace> slower_than_staging(wire &nic, gpu_vendor &gpus,
                                        const place &gpu, const place &host)
{
    const place copy  = host + proof_size;
    void *const bytes = reinterpret_cast<void *>(copy.address);
    bool failed       = false;

    const auto writes = compare(
        "RDMA writes to GPU memory",
        [&] { return carry(nic, verb::write, host, gpu); },
        [&] {
            return carry(nic, verb::write, host, copy) &&
                   (gpus.copy_from_host(gpu.address, bytes, length) == UCS_OK);
        },
        &failed);
    if (writes || failed) {
        return writes;
    }
    return compare(
        "RDMA reads of GPU memory",
        [&] { return carry(nic, verb::read, host, gpu); },
        [&] {
            return (gpus.copy_to_host(bytes, gpu.address, length) == UCS_OK) &&
                   carry(nic, verb::read, host, copy);
        },
        &failed);
}

} // namespace ucx_ib_dmabuf
