// SPDX-License-Identifier: BSD-3-Clause
#include "ucm/completeness.h"

#include <atomic>

namespace ucx_ib_dmabuf {
namespace {

std::atomic<unsigned> gaps{0};

// The argument is set before the handler, and both once.
std::atomic<IncompleteHandler> subscriber{nullptr};
void *subscriber_arg;

const char *usual_reason(Gap gap)
{
    switch (gap) {
    case Gap::GRAPHS:
        return "graphs allocate memory, and free it while they run";
    case Gap::MEMORY:
        return "host memory ran out while CUDA memory was noted";
    default:
        return "functions could not be hooked";
    }
}

} // namespace

void note_gap(Gap gap, const char *why) noexcept
{
    if ((gaps.fetch_or(unsigned(gap)) & unsigned(gap)) != 0) {
        return;
    }
    if (const IncompleteHandler handler = subscriber.load()) {
        handler((why != nullptr) ? why : usual_reason(gap), subscriber_arg);
    }
}

bool has_gap() noexcept
{
    return gaps.load() != 0;
}

std::string gap_reasons()
{
    std::string result;
    for (const Gap gap : {Gap::GRAPHS, Gap::MEMORY}) {
        if ((gaps.load() & unsigned(gap)) != 0) {
            result.append(result.empty() ? "" : "; ").append(usual_reason(gap));
        }
    }
    return result;
}

void cuda_events_on_incomplete(IncompleteHandler handler, void *arg)
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
