// SPDX-License-Identifier: BSD-3-Clause
#include "ucm/module_owners.h"

#include <mutex>
#include <new>

namespace ucx_ib_dmabuf {
namespace {

struct Modules {
    std::mutex lock;
    ModuleOwners library;
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

// Nodes move from map to map: this needs no memory.
ModuleOwners take_modules_of(uint64_t library) noexcept
{
    ModuleOwners taken;
    const std::lock_guard<std::mutex> guard(modules.lock);
    for (auto i = modules.library.begin(); i != modules.library.end();) {
        const auto one = i++;
        if (one->second == library) {
            taken.insert(modules.library.extract(one));
        }
    }
    return taken;
}

void give_back_modules(ModuleOwners &taken) noexcept
{
    const std::lock_guard<std::mutex> guard(modules.lock);
    modules.library.merge(taken);
}

void forget_modules_after_fork() noexcept
{
    new (&modules) Modules; // another thread may have been inside
}

} // namespace ucx_ib_dmabuf
