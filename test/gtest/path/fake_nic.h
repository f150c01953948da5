// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <functional>
#include <infiniband/verbs.h>
#include <uct/ib_dmabuf/path/reg_methods.h>
#include <vector>

namespace path_test {

using namespace ucx_ib_dmabuf;

// Lets the steady clock pass. Each reading of it adds a microsecond.
void pass(std::chrono::microseconds time);

// A NIC with one active port, under the verbs that loopback calls. One at a
// time. The test changes the members.
class fake_nic {
public:
    struct address {
        bool v2       = true;
        bool ipv4     = true;
        bool connects = true;
        bool there    = true; // else its table entry is empty
    };
    // What the NIC has.
    int down      = 0; // inactive ports before the active one
    bool atomics  = true;
    bool ethernet = true;
    std::vector<uint16_t> keys{0xffff};
    std::vector<address> addresses{{}};
    unsigned connections = 100; // the maximum, from the beginning on

    // What loopback did.
    unsigned connected = 0;
    int queues = 0, queue_pairs = 0, ready = 0, asked = 0;
    int partition = -1; // the last queue pair's partition
    std::vector<int> tried{};
    std::vector<ibv_send_wr> posted{}; // the last list; without pointers
    int host_regions = 0;

    // What transfers do. A transfer with an error ends the connection.
    std::function<ibv_wc_status(const ibv_send_wr &)> transfer =
        [](const ibv_send_wr &) { return IBV_WC_SUCCESS; };
    int silent_polls                = 0; // polls without an answer
    unsigned silent                 = 0; // this many lists get no answer
    std::chrono::microseconds pause = std::chrono::seconds(1); // per such poll

    fake_nic();
    ~fake_nic();
    fake_nic(const fake_nic &)            = delete;
    fake_nic &operator=(const fake_nic &) = delete;

    protection_domain pd() { return {&pd_, &verbs_, {}}; }

private:
    friend struct fake_verbs;

    ibv_device device_{};
    ibv_context context_{};
    ibv_pd pd_{};
    ibv_cq queue_{};
    verbs_functions verbs_{};
    bool is_mute_ = false, has_failed_ = false;
    std::deque<ibv_wc> done_;
};

// The keys of registered memory.
constexpr uint32_t gpu_key = 7, host_key = 8;
constexpr uint32_t remote(uint32_t key)
{
    return key + 100;
}

// Registers with the keys of a GPU's memory, unless the test lets it fail.
class fake_importer final : public importer {
public:
    std::function<int()> error = [] { return 0; };
    unsigned asked             = 0;
    int live                   = 0;
    size_t length              = 0; // of the last registration

    void *reg(int, size_t, uintptr_t, size_t size) override
    {
        const int failed = error();

        ++asked;
        length = size;
        live += failed == 0;
        errno = failed;
        return (failed == 0) ? this : nullptr;
    }
    void dereg(void *) override { --live; }
    registered_buffer buffer_of(void *, uintptr_t address) override
    {
        return {address, gpu_key, remote(gpu_key)};
    }
};

// A NIC that moves bytes. The test chooses its faults.
class lying_nic : public fake_nic {
public:
    // An access with the GPU's key, or with any key if lies_of_host is set. The
    // test may change the bytes read, drop the write or return an error.
    struct access {
        ibv_wr_opcode what;
        bool is_read;  // reads the memory
        bool is_local; // uses the local key
        uint8_t *bytes;
        uint32_t length;
    };
    enum class outcome { fine, dropped, error };
    std::function<outcome(const access &)> lie;
    bool lies_of_host = false;
    bool late         = false; // a write waits for a later read of that memory
    unsigned added    = 0;     // atomic additions

    lying_nic()
    {
        transfer = [this](const ibv_send_wr &what) { return move(what); };
    }

private:
    static bool is_gpu(uint32_t key)
    {
        return (key == gpu_key) || (key == remote(gpu_key));
    }
    static uint8_t *pointer(uint64_t address)
    {
        return reinterpret_cast<uint8_t *>(address);
    }
    outcome ask(const ibv_send_wr &what, uint32_t key, bool is_local,
                bool is_read, uint8_t *bytes);
    void put(uint32_t key, uint64_t to, std::vector<uint8_t> bytes);
    void push(uint32_t key);
    ibv_wc_status move(const ibv_send_wr &what);

    std::vector<std::function<void()>> on_its_way_[2]; // [1]: to the GPU
};

} // namespace path_test
