// SPDX-License-Identifier: BSD-3-Clause
//
// How long registering a dma-buf blocks its caller, and giving it up: what the
// plug-in does for a region, in its order, over sizes. Runs in the lab (see
// docs/lab.md); where there are NICs and udmabuf, also beside it. Prints
// medians, and the longest deregistration, in microseconds.
// usage: bench_dereg [TURNS [LARGEST-MIB]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <lab/soft_roce.h>
#include <unistd.h>

using namespace ucx_ib_dmabuf::test;

namespace {

class times {
public:
    // Runs it, and keeps how long that took.
    template <typename F>
    auto take(F &&work)
    {
        const auto start = std::chrono::steady_clock::now();
        auto result      = work();
        const std::chrono::duration<double, std::micro> passed =
            std::chrono::steady_clock::now() - start;
        all_.push_back(passed.count());
        return result;
    }
    double median()
    {
        std::nth_element(all_.begin(), all_.begin() + all_.size() / 2,
                         all_.end());
        return all_[all_.size() / 2];
    }
    double longest() { return *std::max_element(all_.begin(), all_.end()); }

private:
    std::vector<double> all_;
};

// The memory itself stays, as it does where a region is evicted.
double measure(nic &with, size_t size, int turns)
{
    const dma_buf memory(size);
    times exporting, registering, closing, deregistering;

    for (int i = 0; i <= turns; ++i) {
        if (i == 1) { // the first one touches the memory
            exporting = registering = closing = deregistering = times();
        }
        const int fd = exporting.take(
            [&] { return export_memory(memory.memory_fd(), size); });
        ibv_mr *mr = registering.take(
            [&] { return with.reg(fd, 0, size, 0).release(); });
        closing.take([&] { return close(fd); });
        deregistering.take([&] { return ibv_dereg_mr(mr); });
    }
    std::printf("%10zu KiB %10.1f %10.1f %10.1f %10.1f %10.1f\n", size >> 10,
                exporting.median(), registering.median(), closing.median(),
                deregistering.median(), deregistering.longest());
    std::fflush(stdout);
    return deregistering.median();
}

} // namespace

int main(int argc, char **argv)
{
    const int turns = (argc > 1) ? std::max(1, std::atoi(argv[1])) : 11;
    const size_t largest =
        (argc > 2) ? std::strtoull(argv[2], nullptr, 0) : 1024;
    const size_t kib[] = {64,       256,      1 << 10,   2 << 10, 4 << 10,
                          16 << 10, 64 << 10, 256 << 10, 1 << 20};
    size_t blocks      = 0;
    nic with;

    std::printf("%14s %10s %10s %10s %10s %10s\n", "dma-buf", "export",
                "register", "close", "deregister", "longest");
    for (size_t size : kib) {
        if (size <= largest << 10 && measure(with, size << 10, turns) > 100 &&
            blocks == 0) {
            blocks = size;
        }
    }
    if (blocks == 0) {
        std::printf("no deregistration took more than 100 us\n");
    } else {
        std::printf("from %zu KiB on a deregistration takes more than 100 us\n",
                    blocks);
    }
    return 0;
}
