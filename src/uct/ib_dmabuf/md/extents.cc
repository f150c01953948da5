// SPDX-License-Identifier: BSD-3-Clause
//
// Which ranges UCP is told to make entries for.
#include "extents.h"
#include "process_state.h"
#include <mutex>
#include <uct/ib_dmabuf/fork.h>

namespace ucx_ib_dmabuf {
namespace {

// The NICs behind the memory domains of a context, as seen in earlier calls.
// Another context may have the place, or its address: then UCP registers with
// NICs that are not in the list.
struct asked_nics {
    const void *context = nullptr;
    uint64_t md_map     = 0;
    nic_list nics{};
};
std::mutex mutex;
std::array<asked_nics, 64> known;

asked_nics &place_of(const memh_request &request)
{
    const auto context = reinterpret_cast<uintptr_t>(request.context);
    const uint64_t mix = (context >> 6) ^ (request.md_map * 0x9e3779b97f4a7c15);
    return known[(mix ^ (mix >> 32)) % known.size()];
}

nic_list recall(const memh_request &request)
{
    at_fork<&mutex>();
    const std::lock_guard<std::mutex> guard(mutex);
    const asked_nics &place = place_of(request);

    return ((place.context == request.context) &&
            (place.md_map == request.md_map))
               ? place.nics
               : nic_list();
}

void remember(const memh_request &request, const nic_list &nics)
{
    const std::lock_guard<std::mutex> guard(mutex);
    place_of(request) = {request.context, request.md_map, nics};
}

// The regions around a request, one for each NIC, while UCP registers.
class regions {
public:
    regions(rcache &cache, const memh_request &request)
        : cache_(cache), request_(request)
    {
    }
    ~regions()
    {
        for (size_t i = 0; i < count_; ++i) {
            cache_.put(all_[i], request_.address, request_.length);
        }
    }
    regions(const regions &)            = delete;
    regions &operator=(const regions &) = delete;

    // Registers with all NICs. Returns the range for UCP.
    address_range acquire(const nic_list &nics)
    {
        const address_range request =
            make_range(request_.address, request_.length);
        address_range result = (nics.size() == 0) ? request : everything;

        for (const rcache::nic_id nic : nics) {
            if (cache_.get(nic, request_.address, request_.length,
                           &all_[count_]) != UCS_OK) {
                return request;
            }
            result =
                intersection(result, rcache::extent(all_[count_++], request));
        }
        return result;
    }

private:
    rcache &cache_;
    const memh_request &request_;
    std::array<const region *, nic_list::max> all_{};
    size_t count_ = 0;
};

} // namespace

void forget_asked(rcache::nic_id nic) noexcept
{
    at_fork<&mutex>();
    const std::lock_guard<std::mutex> guard(mutex);
    for (asked_nics &each : known) {
        if (each.nics.has(nic)) {
            each = {};
        }
    }
}

ucs_status_t get_gpu_memh(const memh_request &request) noexcept
{
    process_state *shared = process_state::existing();

    if ((shared == nullptr) ||
        (request.mem_type != shared->gpu().memory_type()) ||
        shared->registrations().checks_each_use() ||
        // An error of the caller, which UCP finds.
        (request.length > UINTPTR_MAX - request.address)) {
        return request.pass_on();
    }
    const nic_list before = recall(request);
    nic_list asked        = before;
    regions held(shared->registrations(), request);
    const address_range range = held.acquire(before);

    asked_in_miss       = &asked;
    ucs_status_t status = request.pass_on(range.lo, range.size());
    if ((status != UCS_OK) &&
        !(range == make_range(request.address, request.length))) {
        status = request.pass_on(); // another domain may not take all
    }
    asked_in_miss = nullptr;
    if (asked.size() != before.size()) {
        remember(request, asked);
    }
    return status;
}

} // namespace ucx_ib_dmabuf
