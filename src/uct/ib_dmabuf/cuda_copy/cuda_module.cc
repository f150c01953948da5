// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_copy.h"
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <string_view>
#include <uct/ib_dmabuf/ucx/abi.h>
#include <uct/ib_dmabuf/ucx/library.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

bool has_component(const library &uct_ib)
{
    symbols in(uct_ib);
    const ucs_list_link_t *head = nullptr;
    ucs_list_link_t link;
    char name[16];

    in.find_variable("uct_components_list", &head);
    if ((head == nullptr) || !read_memory(head, &link)) {
        return false;
    }
    while (link.next != head) {
        const char *component = reinterpret_cast<const char *>(link.next) -
                                offsetof(uct_component_t, list);
        if (!read_memory(link.next, &link) || !read_memory(component, &name)) {
            return false;
        }
        if (strncmp(name, "cuda_", 5) == 0) {
            return true;
        }
    }
    return false;
}

} // namespace

// A module with missing dependencies does not load, so dlopen() decides. If UCX
// loads the module later, it gets the same one. UCX_MODULES may exclude the
// module: then it is not loaded, and its file decides.
bool has_cuda_module(const library &uct_ib)
{
    constexpr std::string_view ib = "_ib.so";
    std::string path              = uct_ib.path();
    const size_t at               = path.rfind(ib);
    char modules[8]               = "";
    ucs_status_t (*get)(const char *name, char *value, size_t max);

    if (has_component(uct_ib)) {
        return true;
    }
    if ((at == std::string::npos) ||
        !uct_ib.find("ucs_global_opts_get_value", &get)) {
        return false;
    }
    path.replace(at, ib.size(), "_cuda.so");
    get("MODULES", modules, sizeof(modules));
    return (strcmp(modules, "all") == 0)
               ? (dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr)
               : (access(path.c_str(), F_OK) == 0);
}

} // namespace ucx_ib_dmabuf
