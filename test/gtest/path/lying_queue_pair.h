// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstring>
#include <functional>
#include <uct/ib_dmabuf/path/transfer_check.h>
#include <utility>
#include <vector>

namespace prove_test {

using namespace ucx_ib_dmabuf;

constexpr uint32_t gpu_key = 7, host_key = 8;

// A GPU with the test's host memory.
class plain_gpu final : public gpu_vendor {
public:
    std::vector<uint64_t> memory = std::vector<uint64_t>(proof_size / 8);
    bool fails                   = false; // copies return an error
    unsigned copies              = 0;
    unsigned late                = 0; // this many reads return stale zeros

    place at()
    {
        return {reinterpret_cast<uintptr_t>(memory.data()), gpu_key,
                gpu_key + 100};
    }
    ucs_status_t copy_to_host(void *host, uintptr_t device,
                              size_t length) override
    {
        ++copies;
        if (late > 0) {
            --late;
            memset(host, 0, length);
        } else {
            memcpy(host, reinterpret_cast<void *>(device), length);
        }
        return fails ? UCS_ERR_IO_ERROR : UCS_OK;
    }
    ucs_status_t copy_from_host(uintptr_t device, const void *host,
                                size_t length) override
    {
        ++copies;
        memcpy(reinterpret_cast<void *>(device), host, length);
        return fails ? UCS_ERR_IO_ERROR : UCS_OK;
    }

    ucs_status_t describe(uintptr_t, allocation *) override { return UCS_OK; }
    bool is_current(uintptr_t, uint64_t) override { return true; }
    ucs_status_t export_range(uintptr_t, size_t, int *) override
    {
        return UCS_ERR_UNSUPPORTED;
    }
    size_t granularity() const override { return 4096; }
    const char *name() const noexcept override { return "test"; }
    ucs_memory_type_t memory_type() const noexcept override
    {
        return UCS_MEMORY_TYPE_CUDA;
    }
    bool may_be_device(uintptr_t, size_t) const noexcept override
    {
        return true;
    }
    size_t max_registered(int) override { return SIZE_MAX; }
    void watch(listener &) noexcept override {}
};

// A NIC that copies with the CPU. The test chooses its faults.
class lying_wire final : public wire {
public:
    // An access with the GPU's key, or with any key if lies_of_host is set. The
    // test may change the bytes read, drop the write or return an error.
    struct access {
        verb what;
        bool is_read;  // reads the memory
        bool is_local; // uses the local key
        uint8_t *bytes;
        uint32_t length;
    };
    enum class outcome { fine, dropped, error };
    std::function<outcome(const access &)> lie;
    bool lies_of_host = false;
    bool late         = false; // a write waits for a later read of that memory
    bool atomic       = true;  // supports atomic operations
    unsigned silent   = 0;     // this many calls get no answer
    unsigned carried  = 0;
    unsigned atomics  = 0;

    bool has_atomics() const override { return atomic; }
    bool is_silent() const override { return said_nothing_; }

    std::optional<text> carry(std::span<const transfer> all) override
    {
        said_nothing_ = silent > 0;
        if (said_nothing_) {
            --silent;
            return text("no answer");
        }
        for (const transfer &one : all) {
            if (!carry(one)) {
                return text("remote access error");
            }
            ++carried;
        }
        return std::nullopt;
    }

private:
    bool said_nothing_ = false;
    std::vector<std::function<void()>> on_its_way_[2]; // [1]: to the GPU

    static bool is_gpu(const place &of)
    {
        return (of.lkey == gpu_key) || (of.rkey == gpu_key + 100);
    }
    void put(const place &to, std::vector<uint8_t> bytes)
    {
        on_its_way_[is_gpu(to)].emplace_back(
            [at = pointer(to), all = std::move(bytes)] {
                memcpy(at, all.data(), all.size());
            });
        if (!late) {
            push(to);
        }
    }
    // A read of the memory does not overtake earlier writes to it.
    void push(const place &to)
    {
        for (auto &write : std::exchange(on_its_way_[is_gpu(to)], {})) {
            write();
        }
    }

    outcome ask(const transfer &one, bool is_local, bool is_read,
                uint8_t *bytes)
    {
        const bool gpu = is_gpu(is_local ? one.local : one.remote);
        return (lie && (gpu || lies_of_host))
                   ? lie({one.what, is_read, is_local, bytes, one.length})
                   : outcome::fine;
    }
    static uint8_t *pointer(const place &of)
    {
        return reinterpret_cast<uint8_t *>(of.address);
    }
    bool carry(const transfer &one)
    {
        if (one.what == verb::fetch_add) {
            return add(one);
        }
        const bool writes = one.what == verb::write;
        const place &from = writes ? one.local : one.remote;
        const place &to   = writes ? one.remote : one.local;
        if (!writes) {
            push(from);
        }
        std::vector<uint8_t> moved(pointer(from), pointer(from) + one.length);

        const outcome read    = ask(one, writes, true, moved.data());
        const outcome written = ask(one, !writes, false, moved.data());
        if (written == outcome::fine) {
            put(to, std::move(moved));
        }
        return (read != outcome::error) && (written != outcome::error);
    }
    bool add(const transfer &one)
    {
        uint64_t value = 0;
        ++atomics;
        memcpy(&value, pointer(one.remote), 8);
        memcpy(pointer(one.local), &value, 8);
        const outcome result =
            ask(one, false, false, reinterpret_cast<uint8_t *>(&value));
        if (result == outcome::fine) {
            ++value;
            const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
            put(one.remote, {bytes, bytes + 8});
        }
        return result != outcome::error;
    }
};

// A GPU, a NIC and host memory.
struct bench {
    plain_gpu gpu;
    lying_wire nic;
    std::vector<uint64_t> host = std::vector<uint64_t>(proof_host_size / 8);

    unsigned connections = 0;
    unsigned ports       = 100; // maximum of connections

    // A connection of the same NIC. An error ends it.
    class line final : public wire {
    public:
        explicit line(lying_wire &to) : to_(to) {}
        bool has_atomics() const override { return to_.has_atomics(); }
        bool is_silent() const override { return to_.is_silent(); }
        std::optional<text> carry(std::span<const transfer> all) override
        {
            if (ended_) {
                return text("flushed");
            }
            auto failure = to_.carry(all);
            ended_       = failure.has_value();
            return failure;
        }

    private:
        lying_wire &to_;
        bool ended_ = false;
    };

    verdict prove()
    {
        const place at{reinterpret_cast<uintptr_t>(host.data()), host_key,
                       host_key + 100};
        return ucx_ib_dmabuf::prove(
            [this]() -> connection {
                if (connections == ports) {
                    return {nullptr, "there is none"};
                }
                ++connections;
                return {std::make_unique<line>(nic), nullptr};
            },
            gpu, gpu.at(), at);
    }
};

} // namespace prove_test
