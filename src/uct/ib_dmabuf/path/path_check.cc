// SPDX-License-Identifier: BSD-3-Clause
#include "path_check.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <vector>

namespace ucx_ib_dmabuf {
namespace {

struct part {
    uint32_t offset, length;
};

// Each is sent by itself. Bytes between and behind them must not change.
constexpr part parts[]         = {{0, 1},        {64, 64},     {131, 64},
                                  {4096, 4095},  {8193, 4096}, {16384, 16384},
                                  {32771, 16384}};
constexpr uint32_t atomic_word = 49160; // behind the last
static_assert(std::size(parts) < loopback::max_transfers);
static_assert(atomic_word + 8 <= check_size && check_size % 8 == 0);

using image = std::vector<uint8_t>;

// Bytes that are never 0 or 0xff, as broken paths return those. Even and odd
// turns share none, as other paths return earlier bytes. An even turn has a
// fixed bit, which the next way's odd turn changes, as bits may be stuck.
image noise(unsigned turn)
{
    constexpr uint64_t each_byte = 0x0101010101010101;
    const uint64_t mark          = each_byte * ((turn % 2 == 0) ? 0x80 : 0x40);
    image result(check_size);
    uint64_t state = turn;

    for (size_t at = 0; at < check_size; at += sizeof(state)) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t eight =
            ((state ^ (state >> 32)) & (each_byte * 0x3f)) | mark;
        memcpy(&result[at], &eight, sizeof(eight));
    }
    return result;
}

std::span<const uint8_t> bytes_of(const image &all, const part &which)
{
    return {all.data() + which.offset, which.length};
}

std::optional<text> compare(const part &which, const image &got,
                            const image &sent, const image &before)
{
    const auto found  = bytes_of(got, which);
    const auto wanted = bytes_of(sent, which);

    if (std::ranges::equal(found, wanted)) {
        return std::nullopt;
    }
    if (std::ranges::equal(found, bytes_of(before, which))) {
        return format("%u bytes vanished, though the NIC says that they were "
                      "carried",
                      which.length);
    }
    if (((found[0] == 0) || (found[0] == 0xff)) &&
        (std::ranges::count(found, found[0]) == which.length)) {
        return format("%u bytes arrived as 0x%02x", which.length, found[0]);
    }
    const auto wrong = std::ranges::mismatch(found, wanted);
    size_t count     = 0;
    for (size_t i = 0; i < which.length; ++i) {
        count += found[i] != wanted[i];
    }
    return format("%zu of %u bytes are wrong, the first at %zd: 0x%02x and "
                  "not 0x%02x",
                  count, which.length, wrong.in1 - found.begin(), *wrong.in1,
                  *wrong.in2);
}

// Returns nullopt if all is right: `sent` in the parts, `before` elsewhere.
std::optional<text> compare(const image &got, const image &sent,
                            const image &before)
{
    image expected = before;

    for (const part &each : parts) {
        if (auto wrong = compare(each, got, sent, before)) {
            return wrong;
        }
        std::ranges::copy(bytes_of(sent, each), expected.begin() + each.offset);
    }
    if (got == expected) {
        return std::nullopt;
    }
    const auto wrong = std::ranges::mismatch(got, expected).in1;
    return format("bytes beside those that were sent changed, at %zd",
                  wrong - got.begin());
}

// Checks up to three times: slow bytes are no fault of a path.
template <class Look>
bool look_until(const Look &is_well)
{
    constexpr int looks = 3;
    bool well           = is_well();

    for (int i = 1; !well && (i < looks); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        well = is_well();
    }
    return well;
}

// Prefixes an error, if there is one, with the operation.
std::optional<text> named(const char *operation,
                          const std::optional<text> &wrong)
{
    return wrong ? format("%s: %s", operation, wrong->c_str()) : wrong;
}

// The two ends of a check: GPU memory and host memory, or host memory twice.
class transfers {
public:
    transfers(loopback &nic, gpu_vendor &gpus, const registered_buffer &gpu,
              const registered_buffer &host)
        : nic_(nic), gpus_(&gpus), gpu_(gpu), host_(host)
    {
    }
    // Host memory stands in for the GPU's.
    transfers(loopback &nic, const registered_buffer &host)
        : nic_(nic), gpu_(host + check_size), host_(host)
    {
    }

    std::optional<text> all_ways();
    std::optional<text> atomic();
    // The driver failed to copy, so the path is untested.
    bool is_lost() const { return lost_; }

private:
    std::optional<text> one_way(const char *name, verb how, bool to_gpu,
                                bool gpu_is_local, unsigned turn);
    std::optional<text> flush(const registered_buffer &remote);
    std::optional<text> look(bool at_gpu, const image &sent,
                             const image &before);
    void put(const image &from);
    void get(image *to);
    uint8_t *host() const { return reinterpret_cast<uint8_t *>(host_.address); }

    loopback &nic_;
    gpu_vendor *const gpus_ = nullptr; // null: `gpu_` is host memory
    const registered_buffer gpu_, host_;
    bool lost_ = false;
};

void transfers::put(const image &from)
{
    if (gpus_ == nullptr) {
        std::copy(from.begin(), from.end(),
                  reinterpret_cast<uint8_t *>(gpu_.address));
    } else {
        lost_ |= gpus_->copy_from_host(gpu_.address, from.data(),
                                       from.size()) != UCS_OK;
    }
}

void transfers::get(image *to)
{
    if (gpus_ == nullptr) {
        const auto *from = reinterpret_cast<const uint8_t *>(gpu_.address);
        to->assign(from, from + check_size);
    } else {
        to->resize(check_size);
        lost_ |=
            gpus_->copy_to_host(to->data(), gpu_.address, to->size()) != UCS_OK;
    }
}

// A NIC may complete a write before its bytes arrive. A read of the same memory
// must not overtake the write, so it completes after their arrival.
std::optional<text> transfers::flush(const registered_buffer &remote)
{
    const transfer last{verb::read, host_ + 2 * check_size, remote, 1};

    return named("an RDMA read of what was written there",
                 nic_.run({&last, 1}));
}

std::optional<text> transfers::look(bool at_gpu, const image &sent,
                                    const image &before)
{
    std::optional<text> wrong;
    image got;

    look_until([&] {
        if (at_gpu) {
            get(&got);
        } else {
            got.assign(host(), host() + check_size);
        }
        wrong = lost_ ? std::nullopt : compare(got, sent, before);
        return !wrong;
    });
    return wrong;
}

std::optional<text> transfers::one_way(const char *name, verb how, bool to_gpu,
                                       bool gpu_is_local, unsigned turn)
{
    const image sent   = noise(turn);
    const image before = noise(turn + 1);
    std::vector<transfer> all;

    put(to_gpu ? before : sent);
    const image &mine = to_gpu ? sent : before;
    std::copy(mine.begin(), mine.end(), host());
    for (const part &each : parts) {
        const registered_buffer gpu  = gpu_ + each.offset;
        const registered_buffer host = host_ + each.offset;
        all.push_back({how, gpu_is_local ? gpu : host,
                       gpu_is_local ? host : gpu, each.length});
    }
    std::optional<text> wrong = nic_.run(all);
    if (!wrong) {
        wrong = flush(to_gpu ? gpu_ : host_);
    }
    if (!wrong) {
        wrong = look(to_gpu, sent, before);
    }
    return named(name, wrong);
}

std::optional<text> transfers::all_ways()
{
    const struct {
        const char *name;
        verb how;
        bool to_gpu, gpu_is_local;
    } ways[] = {
        {"an RDMA write to GPU memory", verb::write, true, false},
        {"an RDMA read of GPU memory", verb::read, false, false},
        {"an RDMA write from GPU memory", verb::write, false, true},
        {"an RDMA read into GPU memory", verb::read, true, true},
    };
    std::optional<text> wrong;

    for (unsigned i = 0; i < std::size(ways) && !wrong && !lost_; ++i) {
        wrong = one_way(ways[i].name, ways[i].how, ways[i].to_gpu,
                        ways[i].gpu_is_local, 3 * i);
    }
    return wrong;
}

std::optional<text> transfers::atomic()
{
    constexpr uint64_t value = 0x0123456789abcdef;
    const transfer add{verb::fetch_add, host_, gpu_ + atomic_word, 8};
    image content   = noise(1);
    uint64_t before = 0, after = 0;

    memcpy(&content[atomic_word], &value, sizeof(value));
    put(content);
    std::optional<text> wrong = nic_.run({&add, 1});
    if (!wrong) {
        wrong = flush(gpu_);
    }
    if (!wrong && !look_until([&] {
            get(&content);
            memcpy(&before, host(), sizeof(before));
            memcpy(&after, &content[atomic_word], sizeof(after));
            return lost_ || ((before == value) && (after == value + 1));
        })) {
        wrong = format("0x%016zx became 0x%016zx, and 0x%016zx was returned",
                       size_t{value}, size_t{after}, size_t{before});
    }
    return named("an atomic addition to GPU memory", wrong);
}

check_result untested(const text &why)
{
    return {path_state::untested, why};
}

// Checks the GPU's memory over a new connection, which an error ends. So the
// GPU's atomic operation comes last.
check_result check_gpu(loopback &nic, gpu_vendor &gpus,
                       const registered_buffer &gpu,
                       const registered_buffer &host)
{
    if (nic.problem() != nullptr) {
        return untested(nic.problem());
    }
    transfers real(nic, gpus, gpu, host);
    std::optional<text> wrong = real.all_ways();
    if (!wrong && !real.is_lost() && nic.has_atomics() &&
        !transfers(nic, host).atomic()) {
        wrong = real.atomic();
    }
    if (real.is_lost()) {
        return untested("the driver does not copy");
    }
    return wrong ? check_result{path_state::broken, *wrong}
                 : check_result{path_state::proven, ""};
}

// Repeats the check once after a timeout: the machine may have been busy. A
// failed transfer is a fault of the path only if host memory in the GPU's place
// works.
check_result check_buffers(const protection_domain &pd,
                           std::optional<loopback> &nic, gpu_vendor &gpus,
                           const registered_buffer &gpu,
                           const registered_buffer &host)
{
    check_result found = check_gpu(*nic, gpus, gpu, host);

    if ((found.state == path_state::broken) && nic->is_silent()) {
        found = check_gpu(nic.emplace(pd), gpus, gpu, host);
    }
    if (found.state != path_state::broken) {
        return found;
    }
    if (nic.emplace(pd).problem() != nullptr) {
        return untested(nic->problem());
    }
    const std::optional<text> wrong = transfers(*nic, host).all_ways();
    if (!wrong) {
        return found;
    }
    return {path_state::untested,
            format("it does not reach itself with host memory in the place of "
                   "the GPU's (%s)",
                   wrong->c_str()),
            true};
}

} // namespace

check_result check_path(const protection_domain &pd, gpu_vendor &gpus, int gpu,
                        reg_method method, importer &by,
                        const registered_buffer *probe)
{
    // The GPU's bytes twice, and a word for reads that flush writes.
    const host_pages host(pd, 2 * check_size + 8);
    if (!host.registered()) {
        return untested(
            format("host memory cannot be registered: %s", strerror(errno)));
    }
    std::optional<loopback> nic(std::in_place, pd);
    if (nic->problem() != nullptr) {
        return untested(nic->problem());
    }
    if (probe != nullptr) {
        return check_buffers(pd, nic, gpus, *probe, host.at());
    }
    const auto buffer = gpus.allocate_probe_buffer(gpu);
    if (!buffer || (buffer->length < check_size)) {
        return untested("the GPU has no memory to try");
    }
    // Only a part of the buffer, which has 2 MiB or more: a NIC maps each page.
    const size_t mask   = gpus.granularity() - 1;
    const size_t length = (check_size + mask) & ~mask;
    dmabuf_exports memory(gpus, buffer->address, length);
    int fd       = -1;
    void *handle = (memory.get(method, &fd) == UCS_OK)
                       ? by.reg(fd, memory.offset(), buffer->address, length)
                       : nullptr;
    if (handle == nullptr) {
        return untested("memory to try cannot be registered");
    }
    const auto end = [&](void *made) { by.dereg(made); };
    const std::unique_ptr<void, decltype(end)> ends(handle, end);
    return check_buffers(pd, nic, gpus, by.buffer_of(handle, buffer->address),
                         host.at());
}

} // namespace ucx_ib_dmabuf
