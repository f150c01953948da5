// SPDX-License-Identifier: BSD-3-Clause
//
// Tests each pair with the plug-in's own export, registration methods and path
// check, and measures RDMA between the NIC and itself.
#include "devices.h"
#include "look.h"
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <uct/ib_dmabuf/gpu/dmabuf_exports.h>
#include <uct/ib_dmabuf/path/path_check.h>

namespace ucx_ib_dmabuf::info {
namespace {

// Size of the writes that measure bandwidth; a GPU's buffer is larger.
constexpr uint32_t write_size = 256 << 10;

double seconds_of(const std::function<void()> &what)
{
    using std::chrono::steady_clock;
    const auto begin = steady_clock::now();

    what();
    return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

std::string in_us(double seconds)
{
    return format("%.1f us", seconds * 1e6).c_str();
}

std::string per_second(double bytes)
{
    return format("%.2f GB/s", bytes / 1e9).c_str();
}

// Keeps the GPU in use until the end of the scope.
class primary_context {
public:
    primary_context(const driver &cuda, int gpu) : cuda_(cuda)
    {
        CUcontext context = nullptr;

        result_ = cuda.device_get(&device_, gpu);
        if (result_ == CUDA_SUCCESS) {
            result_ = cuda.primary_ctx_retain(&context, device_);
        }
        if (result_ == CUDA_SUCCESS) {
            cuda.ctx_push_current(context);
        }
    }
    ~primary_context()
    {
        CUcontext context = nullptr;

        if (result_ == CUDA_SUCCESS) {
            cuda_.ctx_pop_current(&context);
            cuda_.primary_ctx_release(device_);
        }
    }
    primary_context(const primary_context &)            = delete;
    primary_context &operator=(const primary_context &) = delete;

    CUresult result() const { return result_; }

private:
    const driver &cuda_;
    CUdevice device_ = 0;
    CUresult result_ = CUDA_SUCCESS;
};

// A NIC's registration of a GPU's memory.
class gpu_registration final : dmabuf_registrar {
public:
    gpu_registration(const open_device &device, gpu_vendor &gpus, int gpu,
                     const gpu_vendor::probe_buffer &buffer)
        : device_(device), methods_(device.domain(), true, *this, table_)
    {
        dmabuf_exports memory(gpus, buffer.address, buffer.length);
        int fd = -1;

        export_time = seconds_of(
            [&] { memory.get(methods_.paths().first(gpu).method, &fd); });
        reg_time = seconds_of([&] {
            methods_.reg({memory, gpu, buffer.address, buffer.length}, &made_);
        });
    }
    ~gpu_registration()
    {
        if (made_ != nullptr) {
            methods_.dereg(made_);
        }
    }
    gpu_registration(const gpu_registration &)            = delete;
    gpu_registration &operator=(const gpu_registration &) = delete;

    bool works() const { return made_ != nullptr; }
    const registered_buffer &at() const { return *made_; }

    double export_time = 0, reg_time = 0; // seconds

private:
    void *reg(int fd, size_t, uintptr_t address, size_t length) override
    {
        return device_.reg_dmabuf(fd, address, length, all_access);
    }
    void dereg(void *handle) override
    {
        device_.domain().verbs->dereg(static_cast<ibv_mr *>(handle));
    }
    registered_buffer buffer_of(void *handle, uintptr_t address) override
    {
        const auto *mr = static_cast<const ibv_mr *>(handle);
        return {address, mr->lkey, mr->rkey};
    }

    const open_device &device_;
    path_table table_;
    reg_methods methods_;
    registration *made_ = nullptr;
};

struct figures {
    double bandwidth, latency; // bytes a second, seconds; 0: not known
};

// Measures RDMA writes.
figures measure(loopback &nic, const registered_buffer &from,
                const registered_buffer &to)
{
    constexpr unsigned rounds = 20;
    std::array<transfer, loopback::max_transfers> many;
    const transfer one{verb::write, from, to, 8};
    figures result{};
    bool went_well = !nic.run({&one, 1}); // the first one is slower

    many.fill({verb::write, from, to, write_size});
    const double short_time = seconds_of([&] {
        for (unsigned i = 0; went_well && (i < rounds); ++i) {
            went_well = !nic.run({&one, 1});
        }
    });
    const double long_time =
        seconds_of([&] { went_well = went_well && !nic.run(many); });
    if (went_well) {
        result.latency = short_time / rounds;
        result.bandwidth =
            static_cast<double>(write_size) * many.size() / long_time;
    }
    return result;
}

void add_figures(const protection_domain &pd, const gpu_registration &gpu,
                 part *out)
{
    const host_pages host(pd, size_t{2} * write_size);
    const connection to = loopback::to_itself(pd);

    out->ok("export", in_us(gpu.export_time));
    out->ok("registration", in_us(gpu.reg_time));
    if (!host.registered() || !to.nic) {
        return;
    }
    const figures beside = measure(*to.nic, host.at(), host.at() + write_size);
    const figures found  = measure(*to.nic, host.at(), gpu.at());
    if ((beside.bandwidth == 0) || (found.bandwidth == 0)) {
        out->warns("bandwidth", "could not be measured",
                   "the NIC gave up what takes longer than a proof",
                   "see dmesg, and whether the machine is busy");
        return;
    }
    const std::string text = per_second(found.bandwidth) + " (host memory " +
                             per_second(beside.bandwidth) + ")";
    if (found.bandwidth < beside.bandwidth / 4) {
        out->warns("bandwidth", text,
                   "the way from the NIC to the GPU is much slower than to "
                   "host memory",
                   "see the distance of the two, and ACS");
    } else {
        out->ok("bandwidth", text);
    }
    out->ok("latency", in_us(found.latency) + " (host memory " +
                           in_us(beside.latency) + ")");
}

void report_check(const check_result &found, part *out)
{
    switch (found.state) {
    case path_state::proven:
        out->ok("proof", "every byte arrives");
        break;
    case path_state::broken:
        out->fails("proof", "bytes do not arrive", found.why.c_str(),
                   "switch ACS off, boot with iommu=pt, or use a NIC that is "
                   "nearer to the GPU (docs/troubleshooting.md)");
        break;
    default:
        out->warns("proof", "could not be made", found.why.c_str(),
                   "see that a port is active and that the device reaches "
                   "itself");
    }
}

// The plug-in's last warning.
struct {
    std::string message, remedy;
} last_warning;

void keep_warning(const char *message, const char *remedy)
{
    last_warning = {
        message, (remedy != nullptr) ? remedy : "see docs/troubleshooting.md"};
}

void prove_pair(const open_device &device, const driver &cuda, int gpu,
                part *out)
{
    const protection_domain pd = device.domain();
    cuda_vendor gpus(cuda);
    const primary_context in_use(cuda, gpu);
    const auto buffer = gpus.allocate_probe_buffer(gpu);

    if (!buffer || (buffer->length < write_size)) {
        out->warns("proof", "could not be made",
                   (in_use.result() == CUDA_SUCCESS)
                       ? "no memory of the GPU can be had"
                       : cuda.error(in_use.result()).c_str(),
                   "see nvidia-smi for what uses the GPU's memory, and its "
                   "compute mode");
        return;
    }
    keep_warning(
        "the GPU's memory is not exported, or the NIC does not take it",
        nullptr);
    const gpu_registration memory(device, gpus, gpu, *buffer);
    if (!memory.works()) {
        out->fails("registration", "no", last_warning.message,
                   last_warning.remedy);
        return;
    }
    errno = 0;
    const host_pages host(pd, check_host_size);
    if (!host.registered()) {
        const int error = errno;
        out->fails("proof", "could not be made",
                   std::string("host memory cannot be registered: ") +
                       strerror(error),
                   (error == ENOMEM) ? "raise 'ulimit -l'" : "see dmesg");
        return;
    }
    const check_result found = check_buffers(pd, gpus, memory.at(), host.at());
    report_check(found, out);
    if (found.state == path_state::proven) {
        add_figures(pd, memory, out);
    }
}

} // namespace

void prove_pairs(report *out)
{
    const driver *cuda = driver::get(true);

    if (out->pairs.empty() || (cuda == nullptr)) {
        return;
    }
    const libibverbs &verbs = libibverbs::get();
    const device_list all(verbs);
    tell_warnings_to(keep_warning);
    for (pair &each : out->pairs) {
        if (each.how == state::fails) {
            continue; // the cause was reported
        }
        for (ibv_device *device : all.devices()) {
            if (out->nics[each.nic].name != device->name) {
                continue;
            }
            const open_device opened(verbs, device);
            if (opened.pd() != nullptr) {
                prove_pair(opened, *cuda, static_cast<int>(each.gpu),
                           &each.about);
            }
        }
        each.how = each.about.worst();
    }
}

} // namespace ucx_ib_dmabuf::info
