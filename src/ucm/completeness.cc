// SPDX-License-Identifier: BSD-3-Clause
#include "completeness.h"
#include <atomic>

namespace ucx_ib_dmabuf {
namespace {

std::atomic<unsigned> gaps{0};

// The argument is set before the handler, and both once.
std::atomic<incomplete_handler> subscriber{nullptr};
void *subscriber_arg;

const char *usual_reason(ucm::gap which)
{
    return (which == ucm::gap::graphs)
               ? "graphs allocate memory, and free it while they run"
               : "host memory ran out while CUDA memory was noted";
}

} // namespace

void ucm::note_gap(gap which, const char *why) noexcept
{
    if ((gaps.fetch_or(unsigned(which)) & unsigned(which)) != 0) {
        return;
    }
    if (const incomplete_handler handler = subscriber.load()) {
        handler((why != nullptr) ? why : usual_reason(which), subscriber_arg);
    }
}

bool ucm::has_gap() noexcept
{
    return gaps.load() != 0;
}

std::string ucm::gap_reasons()
{
    std::string result;
    for (const gap which : {gap::graphs, gap::memory}) {
        if ((gaps.load() & unsigned(which)) != 0) {
            result.append(result.empty() ? "" : "; ")
                .append(usual_reason(which));
        }
    }
    return result;
}

void cuda_events_on_incomplete(incomplete_handler handler, void *arg)
{
    subscriber_arg = arg;
    subscriber.store(handler);
    // Whoever notes a gap sets it and then looks for the handler: one of the
    // two sees the other.
    if (!cuda_events_complete()) {
        handler(cuda_events_missing().c_str(), arg);
    }
}

} // namespace ucx_ib_dmabuf
