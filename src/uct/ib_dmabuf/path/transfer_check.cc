// SPDX-License-Identifier: BSD-3-Clause
#include "transfer_check.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>
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
static_assert(std::size(parts) < wire::max_transfers);
static_assert(atomic_word + 8 <= proof_size);

using image = std::vector<uint8_t>;

// Bytes that are never 0 or 0xff, as broken paths return those. They differ
// from the next turn's, as other broken paths return the earlier bytes.
image noise(unsigned turn)
{
    image result(proof_size);
    uint32_t state = turn * 2654435769u + 1;

    for (uint8_t &byte : result) {
        state = state * 1664525u + 1013904223u;
        byte  = static_cast<uint8_t>(1 + (state >> 24) % 127 +
                                    ((turn % 2 == 0) ? 127 : 0));
    }
    return result;
}

// Describes how a part differs from the bytes that were sent.
text difference(const image &got, const image &sent, const image &before,
                const part &in)
{
    const auto begin = got.begin() + in.offset;
    const auto end   = begin + in.length;
    const auto wrong =
        std::mismatch(begin, end, sent.begin() + in.offset).first;
    const auto all = [&](uint8_t value) {
        return std::all_of(begin, end,
                           [=](uint8_t byte) { return byte == value; });
    };

    if (std::equal(begin, end, before.begin() + in.offset)) {
        return format("%u bytes vanished, though the NIC says that they were "
                      "carried",
                      in.length);
    }
    if (all(0) || all(0xff)) {
        return format("%u bytes arrived as 0x%02x", in.length, *begin);
    }
    size_t count = 0;
    for (size_t i = in.offset; i < in.offset + in.length; ++i) {
        count += got[i] != sent[i];
    }
    return format("%zu of %u bytes are wrong, the first at %zd: 0x%02x and "
                  "not 0x%02x",
                  count, in.length, wrong - begin, *wrong,
                  sent[in.offset + static_cast<size_t>(wrong - begin)]);
}

// Returns nullopt if all is right: `sent` in the parts, `before` elsewhere.
std::optional<text> compare(const image &got, const image &sent,
                            const image &before)
{
    image expected = before;
    for (const part &each : parts) {
        std::copy_n(sent.begin() + each.offset, each.length,
                    expected.begin() + each.offset);
    }
    if (got == expected) {
        return std::nullopt;
    }
    for (const part &each : parts) {
        if (!std::equal(got.begin() + each.offset,
                        got.begin() + each.offset + each.length,
                        sent.begin() + each.offset)) {
            return difference(got, sent, before, each);
        }
    }
    return format(
        "bytes beside those that were sent changed, at %zd",
        std::mismatch(got.begin(), got.end(), expected.begin()).first -
            got.begin());
}

// Checks up to three times: slow bytes do not refute a path.
template <class Look>
void look_until(const Look &is_well)
{
    constexpr int looks = 3;

    for (int i = 1; !is_well() && (i < looks); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// The two ends of a proof: GPU memory and host memory, or host memory twice.
class trial_of {
public:
    trial_of(wire &nic, gpu_vendor &gpus, const place &gpu, const place &host,
             bool is_host)
        : nic_(nic), gpus_(gpus), gpu_(gpu), host_(host), is_host_(is_host)
    {
    }

    std::optional<text> all_ways();
    std::optional<text> atomic();
    // The driver failed to copy, so there is no finding.
    bool is_lost() const { return lost_; }

private:
    std::optional<text> one_way(const char *name, verb how, bool to_gpu,
                                bool gpu_is_local, unsigned turn);
    std::optional<text> flush(const place &remote);
    std::optional<text> look(bool at_gpu, const image &sent,
                             const image &before);
    void put(const image &from);
    void get(image *to);
    uint8_t *host() const { return reinterpret_cast<uint8_t *>(host_.address); }

    wire &nic_;
    gpu_vendor &gpus_;
    const place gpu_, host_;
    const bool is_host_; // host memory stands in for the GPU's
    bool lost_ = false;
};

void trial_of::put(const image &from)
{
    if (is_host_) {
        std::copy(from.begin(), from.end(),
                  reinterpret_cast<uint8_t *>(gpu_.address));
    } else {
        lost_ |= gpus_.copy_from_host(gpu_.address, from.data(), from.size()) !=
                 UCS_OK;
    }
}

void trial_of::get(image *to)
{
    if (is_host_) {
        const auto *from = reinterpret_cast<const uint8_t *>(gpu_.address);
        to->assign(from, from + proof_size);
    } else {
        to->resize(proof_size);
        lost_ |=
            gpus_.copy_to_host(to->data(), gpu_.address, to->size()) != UCS_OK;
    }
}

// A NIC may complete a write before its bytes arrive. A read of the same memory
// must not overtake the write, so it completes after their arrival.
std::optional<text> trial_of::flush(const place &remote)
{
    const transfer last{verb::read, host_ + 2 * proof_size, remote, 1};
    const std::optional<text> failure = nic_.carry({&last, 1});

    return failure ? format("an RDMA read of what was written there: %s",
                            failure->c_str())
                   : failure;
}

std::optional<text> trial_of::look(bool at_gpu, const image &sent,
                                   const image &before)
{
    std::optional<text> wrong;
    image got;

    look_until([&] {
        if (at_gpu) {
            get(&got);
        } else {
            got.assign(host(), host() + proof_size);
        }
        wrong = lost_ ? std::nullopt : compare(got, sent, before);
        return !wrong;
    });
    return wrong;
}

std::optional<text> trial_of::one_way(const char *name, verb how, bool to_gpu,
                                      bool gpu_is_local, unsigned turn)
{
    const image sent   = noise(turn);
    const image before = noise(turn + 1);
    std::vector<transfer> all;

    put(to_gpu ? before : sent);
    const image &mine = to_gpu ? sent : before;
    std::copy(mine.begin(), mine.end(), host());
    for (const part &each : parts) {
        const place gpu  = gpu_ + each.offset;
        const place host = host_ + each.offset;
        all.push_back({how, gpu_is_local ? gpu : host,
                       gpu_is_local ? host : gpu, each.length});
    }
    std::optional<text> wrong = nic_.carry(all);
    if (!wrong) {
        wrong = flush(to_gpu ? gpu_ : host_);
    }
    if (!wrong) {
        wrong = look(to_gpu, sent, before);
    }
    if (wrong) {
        wrong = format("%s: %s", name, wrong->c_str());
    }
    return wrong;
}

std::optional<text> trial_of::all_ways()
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
                        ways[i].gpu_is_local, 2 * i);
    }
    return wrong;
}

std::optional<text> trial_of::atomic()
{
    constexpr uint64_t value = 0x0123456789abcdef;
    const transfer add{verb::fetch_add, host_, gpu_ + atomic_word, 8};
    image content   = noise(1);
    uint64_t before = 0, after = 0;

    memcpy(&content[atomic_word], &value, sizeof(value));
    put(content);
    std::optional<text> wrong = nic_.carry({&add, 1});
    if (!wrong) {
        wrong = flush(gpu_);
    }
    if (!wrong) {
        look_until([&] {
            get(&content);
            memcpy(&before, host(), sizeof(before));
            memcpy(&after, &content[atomic_word], sizeof(after));
            return lost_ || ((before == value) && (after == value + 1));
        });
        if (!lost_ && ((before != value) || (after != value + 1))) {
            wrong =
                format("0x%016zx became 0x%016zx, and 0x%016zx was returned",
                       size_t{value}, size_t{after}, size_t{before});
        }
    }
    return wrong
               ? format("an atomic addition to GPU memory: %s", wrong->c_str())
               : wrong;
}

} // namespace

std::optional<text> try_host(wire &nic, gpu_vendor &gpus, const place &host)
{
    return trial_of(nic, gpus, host + proof_size, host, true).all_ways();
}

verdict try_gpu(wire &nic, gpu_vendor &gpus, const place &gpu,
                const place &host)
{
    trial_of control(nic, gpus, host + proof_size, host, true);
    trial_of real(nic, gpus, gpu, host, false);

    std::optional<text> wrong = real.all_ways();
    // An error ends the connection, so the GPU's atomic comes last.
    if (!wrong && !real.is_lost() && nic.has_atomics() && !control.atomic()) {
        wrong = real.atomic();
    }
    if (real.is_lost()) {
        return {finding::unknown, "the driver does not copy"};
    }
    return wrong ? verdict{finding::refuted, *wrong}
                 : verdict{finding::carries, ""};
}

} // namespace ucx_ib_dmabuf
