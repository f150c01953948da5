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

// The longest there is, if it fails.
template <class What>
nanoseconds time_of(const What &what)
{
    const auto begin = steady_clock::now();

    return what() ? nanoseconds(steady_clock::now() - begin)
                  : nanoseconds::max();
}

// Most paths are told from one round: more are for machines that others use.
template <class Direct, class Staged>
std::optional<pace> compare(const char *way, const Direct &direct,
                            const Staged &staged)
{
    pace best{way, length, nanoseconds::max(), nanoseconds::max()};

    for (int i = 0; i < rounds; ++i) {
        best.direct = std::min(best.direct, time_of(direct));
        best.staged = std::min(best.staged, time_of(staged));
        if ((best.staged == nanoseconds::max()) ||
            (best.direct / tolerated <= best.staged)) {
            return std::nullopt;
        }
    }
    return (best.direct == nanoseconds::max()) ? std::nullopt
                                               : std::optional(best);
}

} // namespace

std::optional<pace> slower_than_staging(wire &nic, gpu_vendor &gpus,
                                        const place &gpu, const place &host)
{
    const place copy  = host + proof_size;
    void *const bytes = reinterpret_cast<void *>(copy.address);

    const auto writes = compare(
        "RDMA writes to GPU memory",
        [&] { return carry(nic, verb::write, host, gpu); },
        [&] {
            return carry(nic, verb::write, host, copy) &&
                   (gpus.copy_from_host(gpu.address, bytes, length) == UCS_OK);
        });
    if (writes) {
        return writes;
    }
    return compare(
        "RDMA reads of GPU memory",
        [&] { return carry(nic, verb::read, host, gpu); },
        [&] {
            return (gpus.copy_to_host(bytes, gpu.address, length) == UCS_OK) &&
                   carry(nic, verb::read, host, copy);
        });
}

} // namespace ucx_ib_dmabuf
