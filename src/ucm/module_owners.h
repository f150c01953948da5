// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>

/**
 * Modules that cuLibraryGetModule gave out. Variables that are asked for by
 * such a module go with its library.
 */
namespace ucx_ib_dmabuf {

/** A module belongs to a library. @return False: there is no memory left. */
bool note_module_of(uint64_t library, uint64_t module) noexcept;

/** The library that a module belongs to, or the module itself. */
uint64_t owner_of_module(uint64_t module) noexcept;

/** The library of each module. */
using ModuleOwners = std::map<uint64_t, uint64_t>;

/** A library goes, and its modules with it: forget these. */
ModuleOwners take_modules_of(uint64_t library) noexcept;

/** It stays after all. */
void give_back_modules(ModuleOwners &taken) noexcept;

/** In the child of a fork: forget all, with a fresh lock. */
void forget_modules_after_fork() noexcept;

} // namespace ucx_ib_dmabuf
