// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "driver.h"
#include <atomic>
#include <cstdint>
#include <cuda_sim/cuda_sim.h>
#include <memory>
#include <thread>

// Functions that only the simulated GPU has.
namespace gpu {

// Calls a function that the simulated GPU adds to the Driver API.
#define SIM_CALL(_name, ...) gpu::entry<decltype(_name)>(#_name)(__VA_ARGS__)

// Returns the bytes of GPU memory copied in this process so far, by any
// library; 0 without libcuda.
inline uint64_t copied_bytes()
{
    cuda_sim_counters_t counters = {};

    if (library() != nullptr) {
        SIM_CALL(cuda_sim_counters, &counters);
    }
    return counters.copied_bytes;
}

// A kernel in the legacy stream that runs until the end of the scope.
class running_kernel {
public:
    running_kernel() { SIM_CALL(cuda_sim_kernel_start); }
    ~running_kernel() { SIM_CALL(cuda_sim_kernel_stop); }
    running_kernel(const running_kernel &)            = delete;
    running_kernel &operator=(const running_kernel &) = delete;

    // Returns the number of calls that wait for it.
    uint64_t waiters() const { return SIM_CALL(cuda_sim_kernel_waiters); }
};

// Whether the call waits for such a kernel, which ends then.
template <class Call>
bool waits_for_kernel(const Call &call)
{
    std::atomic<bool> done{false};
    auto kernel = std::make_unique<running_kernel>();
    bool waits  = false;
    std::thread end([&] {
        while (!done && (kernel->waiters() == 0)) {
            std::this_thread::yield();
        }
        waits = kernel->waiters() > 0;
        kernel.reset();
    });
    call();
    done = true;
    end.join();
    return waits;
}

// Makes calls fail until the end of the scope.
class scoped_fail {
public:
    explicit scoped_fail(const std::string &spec)
    {
        if (SIM_CALL(cuda_sim_set_fail, spec.c_str()) != 0) {
            throw std::runtime_error("wrong: " + spec);
        }
    }
    ~scoped_fail() { SIM_CALL(cuda_sim_set_fail, nullptr); }
    scoped_fail(const scoped_fail &)            = delete;
    scoped_fail &operator=(const scoped_fail &) = delete;
};

} // namespace gpu
