// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_module.h"
#include "library.h"
#include "look_up.h"
#include "transport_types.h"
#include <cstring>
#include <glob.h>
#include <string>

namespace ucx_ib_dmabuf {
namespace {

bool has_component(const library &uct_ib)
{
    class look_up in(uct_ib);
    const ucs_list_link_t *head = nullptr;
    ucs_list_link_t link;
    char name[16];

    in.find_variable("uct_components_list", &head);
    if ((head == nullptr) || !read_memory(head, &link)) {
        return false;
    }
    while (link.next != head) {
        const char *component = reinterpret_cast<const char *>(link.next) -
                                offsetof(whole_component, list);
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

bool has_cuda_module(const library &uct_ib)
{
    if (has_component(uct_ib)) {
        return true;
    }
    const std::string path = uct_ib.path();
    const size_t slash     = path.rfind('/');
    glob_t found{};
    bool is_there = false;

    if (slash != std::string::npos) {
        const std::string pattern = path.substr(0, slash) + "/libuct_cuda*";
        is_there = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0;
        globfree(&found);
    }
    return is_there;
}

} // namespace ucx_ib_dmabuf
