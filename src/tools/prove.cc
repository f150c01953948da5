// SPDX-License-Identifier: BSD-3-Clause
//
// Tests each pair with the plug-in's own export, registration methods and path
// check, and measures RDMA between the NIC and itself.
#include "nics.h"
#include "report.h"
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/path/path_check.h>

namespace ucx_ib_dmabuf::info {
namespace {

// Size of the writes that measure bandwidth; a GPU's buffer is larger.
constexpr uint32_t write_size = 256 << 10;

template <class Call>
double seconds_of(const Call &call)
{
    using std::chrono::steady_clock;
    const auto begin = steady_clock::now();

    call();
    return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

std::string in_us(double seconds)
{
    return format("%.1f us", seconds * 1e6).c_str();
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

// A buffer of GPU memory that a NIC has registered.
struct gpu_registration {
    explicit gpu_registration(open_device *nic)
        : methods(nic->domain(), true, *nic, table)
    {
    }
    ~gpu_registration()
    {
        if (made != nullptr) {
            methods.dereg(made);
        }
    }
    gpu_registration(const gpu_registration &)            = delete;
    gpu_registration &operator=(const gpu_registration &) = delete;

    std::unique_ptr<gpu_vendor::probe_buffer> buffer;
    path_table table;
    reg_methods methods;
    registration *made = nullptr;
    double export_time = 0, reg_time = 0; // seconds
};

// Fills `to` and returns true, or adds the cause.
bool register_buffer(const driver &cuda, gpu_vendor *gpus, int gpu,
                     gpu_registration *to, part *out)
{
    CUdevice device   = 0;
    CUcontext context = nullptr;
    int fd            = -1;

    // The GPU stays in use until this process ends.
    CUresult result = cuda.device_get(&device, gpu);
    if (result == CUDA_SUCCESS) {
        result = cuda.primary_ctx_retain(&context, device);
    }
    to->buffer = gpus->allocate_probe_buffer(gpu);
    if (!to->buffer || (to->buffer->length < write_size)) {
        out->add(warning, "proof", "could not be made",
                 (result == CUDA_SUCCESS) ? "no memory of the GPU can be had"
                                          : cuda.error(result).c_str(),
                 "see nvidia-smi for what uses the GPU's memory, and its "
                 "compute mode");
        return false;
    }
    keep_warning("the GPU's memory is not exported, or the NIC does not take "
                 "it",
                 nullptr);
    const gpu_vendor::probe_buffer &buffer = *to->buffer;
    dmabuf_exports memory(*gpus, buffer.address, buffer.length);
    to->export_time =
        seconds_of([&] { memory.get(to->methods.first(gpu), &fd); });
    to->reg_time = seconds_of([&] {
        to->methods.reg({memory, gpu, buffer.address, buffer.length},
                        &to->made);
    });
    if (to->made == nullptr) {
        out->add(fails, "registration", "no", last_warning.message,
                 last_warning.remedy);
    }
    return to->made != nullptr;
}

struct figures {
    double bandwidth = 0, latency = 0; // bytes a second, seconds; 0: not known
};

// Measures RDMA writes.
figures measure(loopback *nic, const registered_buffer &from,
                const registered_buffer &to)
{
    constexpr unsigned rounds = 20;
    std::array<transfer, loopback::max_transfers> many;
    const transfer one{verb::write, from, to, 8};
    bool went_well = !nic->run({&one, 1}); // the first one is slower

    many.fill({verb::write, from, to, write_size});
    const double short_time = seconds_of([&] {
        for (unsigned i = 0; went_well && (i < rounds); ++i) {
            went_well = !nic->run({&one, 1});
        }
    });
    const double long_time =
        seconds_of([&] { went_well = went_well && !nic->run(many); });
    if (!went_well) {
        return {};
    }
    return {static_cast<double>(write_size) * many.size() / long_time,
            short_time / rounds};
}

void add_figures(const protection_domain &pd, const gpu_registration &gpu,
                 part *out)
{
    const host_pages host(pd, 2 * size_t{write_size});
    loopback to(pd);

    out->add(ok, "export", in_us(gpu.export_time));
    out->add(ok, "registration", in_us(gpu.reg_time));
    if (!host.registered() || (to.problem() != nullptr)) {
        return;
    }
    const figures beside = measure(&to, host.at(), host.at() + write_size);
    const figures found  = measure(&to, host.at(), *gpu.made);
    if ((beside.bandwidth == 0) || (found.bandwidth == 0)) {
        out->add(warning, "bandwidth", "could not be measured",
                 "the NIC gave up what takes longer than a proof",
                 "see dmesg, and whether the machine is busy");
        return;
    }
    out->diagnose(
        "bandwidth",
        format("%.2f GB/s (host memory %.2f GB/s)", found.bandwidth / 1e9,
               beside.bandwidth / 1e9)
            .c_str(),
        {{found.bandwidth < beside.bandwidth / 4, warning,
          "the way from the NIC to the GPU is much slower than to host memory",
          "see the distance of the two, and ACS"}});
    out->add(ok, "latency",
             in_us(found.latency) + " (host memory " + in_us(beside.latency) +
                 ")");
}

void prove_pair(open_device *nic, const driver &cuda, int gpu, part *out)
{
    const protection_domain pd = nic->domain();
    cuda_vendor gpus(cuda);
    gpu_registration memory(nic);

    if (!register_buffer(cuda, &gpus, gpu, &memory, out)) {
        return;
    }
    errno = 0;
    const host_pages host(pd, check_host_size);
    if (!host.registered()) {
        const int error = errno;
        out->add(fails, "proof", "could not be made",
                 std::string("host memory cannot be registered: ") +
                     strerror(error),
                 (error == ENOMEM) ? "raise 'ulimit -l'" : "see dmesg");
        return;
    }
    const check_result found = check_buffers(pd, gpus, *memory.made, host.at());

    out->diagnose(
        "proof", "every byte arrives",
        {{found.state == path_state::broken, fails, found.why.c_str(),
          "switch ACS off, boot with iommu=pt, or use a NIC that is nearer to "
          "the GPU (docs/troubleshooting.md)",
          "bytes do not arrive"},
         {found.state != path_state::proven, warning, found.why.c_str(),
          "see that a port is active and that the device reaches itself",
          "could not be made"}});
    if (found.state == path_state::proven) {
        add_figures(pd, memory, out);
    }
}

} // namespace

void prove_pairs(std::deque<open_device> &nics, report *out)
{
    const driver *cuda = driver::get(true);

    tell_warnings_to(keep_warning);
    for (pair &each : out->pairs) {
        if (each.how != fails) { // else the cause was reported
            prove_pair(&nics[each.nic], *cuda, static_cast<int>(each.gpu),
                       &each.about);
            each.how = each.about.worst();
        }
    }
}

} // namespace ucx_ib_dmabuf::info
