// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_vendor.h"
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

// Returns the answer of an NVML query; `otherwise` without the library.
template <class Question>
bool ask(bool otherwise, Question &&question)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    int (*init)();
    int (*shutdown)();
    bool answer = false;

    if (library == nullptr) {
        log_debug("ib_dmabuf: no libnvidia-ml: %s", dlerror());
        return otherwise;
    }
    if (find_entry(library, "nvmlInit_v2", &init) &&
        find_entry(library, "nvmlShutdown", &shutdown) && (init() == 0)) {
        answer = question(library);
        shutdown();
    }
    dlclose(library);
    return answer;
}

} // namespace

bool read_bar1(const char *bus_id, bar1_memory *memory)
{
    const bool known = ask(false, [&](void *library) {
        int (*by_pci_bus_id)(const char *, void **);
        int (*bar1)(void *, bar1_memory *);
        void *handle = nullptr;

        return find_entry(library, "nvmlDeviceGetHandleByPciBusId_v2",
                          &by_pci_bus_id) &&
               find_entry(library, "nvmlDeviceGetBAR1MemoryInfo", &bar1) &&
               (by_pci_bus_id(bus_id, &handle) == 0) &&
               (bar1(handle, memory) == 0) && (memory->total != 0);
    });
    if (!known) {
        log_debug("ib_dmabuf: NVML does not tell the BAR1 of %s", bus_id);
    }
    return known;
}

// nvmlInit_v2() initializes no GPU, and fails if no driver is loaded.
bool nvml_may_have_gpu()
{
    return ask(true, [](void *) { return true; });
}

bool is_coherent(const driver &cuda, CUdevice device)
{
    int coherent = 0;
    cuda.device_get_attribute(
        &coherent,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        device);
    return coherent != 0;
}

size_t cuda_vendor::max_registered(int device)
{
    bar1_memory memory{};
    char bus_id[32] = "";
    CUdevice handle = 0;

    if ((cuda_.device_get(&handle, device) != CUDA_SUCCESS) ||
        is_coherent(cuda_, handle) ||
        (cuda_.device_get_pci_bus_id(bus_id, sizeof(bus_id), handle) !=
         CUDA_SUCCESS) ||
        !read_bar1(bus_id, &memory)) {
        return SIZE_MAX;
    }
    size_t all = 0;
    log_debug("ib_dmabuf: GPU %d has %llu bytes of BAR1", device, memory.total);
    if ((cuda_.device_total_mem(&all, handle) == CUDA_SUCCESS) &&
        (memory.total >= all)) {
        return SIZE_MAX;
    }
    return static_cast<size_t>(memory.total / 10 * 9);
}

} // namespace ucx_ib_dmabuf
