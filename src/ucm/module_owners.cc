// SPDX-License-Identifier: BSD-3-Clause
#include "ucm/module_owners.h"

#include <map>
#include <mutex>
#include <new>

namespace ucx_ib_dmabuf {
namespace {

struct Modules {
    std::mutex lock;
    std::map<uint64_t, uint64_t> library; // of each module
};

// Never destroyed: modules may be used until the very end of the process.
alignas(Modules) unsigned char storage[sizeof(Modules)];
Modules &modules = *new (storage) Modules;

} // namespace

bool note_module_of(uint64_t library, uint64_t module) noexcept
{
    try {
        const std::lock_guard<std::mutex> guard(modules.lock);
        modules.library[module] = library;
        return true;
    } catch (const std::bad_alloc &) {
        return false;
    }
}

uint64_t owner_of_module(uint64_t module) noexcept
{
    const std::lock_guard<std::mutex> guard(modules.lock);
    const auto found = modules.library.find(module);
    return (found == modules.library.end()) ? module : found->second;
}

void forget_modules_of(uint64_t library) noexcept
{
    const std::lock_guard<std::mutex> guard(modules.lock);
    std::erase_if(modules.library,
                  [=](const auto &one) { return one.second == library; });
}

void forget_modules_after_fork() noexcept
{
    new (&modules) Modules; // another thread may have been inside
}

} // namespace ucx_ib_dmabuf
