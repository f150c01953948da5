// SPDX-License-Identifier: BSD-3-Clause
#include "alloc_faults.h"
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <sys/mman.h>
#include <unwind.h>

namespace alloc_faults {
namespace {

thread_local plan *current;
thread_local unsigned made;

const void *base_of(uintptr_t address, const char **name)
{
    Dl_info info{};

    if (dladdr(reinterpret_cast<void *>(address), &info) == 0) {
        return nullptr;
    }
    *name = info.dli_fname;
    return info.dli_fbase;
}

// Searches the stack for the caller of new above the C++ library.
struct search {
    uintptr_t from;
    bool passed = false;
    bool ours   = false;
};

_Unwind_Reason_Code look(_Unwind_Context *frame, void *arg)
{
    auto *where          = static_cast<search *>(arg);
    const uintptr_t here = _Unwind_GetIP(frame);
    const char *name     = "";

    where->passed = where->passed || (here == where->from);
    if (!where->passed) {
        return _URC_NO_REASON;
    }
    const void *base = base_of(here, &name);
    if (strstr(name, "libstdc++") != nullptr) {
        return _URC_NO_REASON;
    }
    where->ours = base == base_of(reinterpret_cast<uintptr_t>(&look), &name);
    return _URC_END_OF_STACK;
}

bool refuses()
{
    if ((current == nullptr) || (exemptions > 0)) {
        return false;
    }
    ++made;
    if ((made < current->nth) || ((made > current->nth) && !current->all)) {
        return false;
    }
    current->failed = true;
    errno           = ENOMEM;
    return true;
}

bool calls_inside()
{
    if ((current == nullptr) || (exemptions > 0) ||
        (current->inside == nullptr)) {
        return false;
    }
    const exempt from_it;
    current->inside();
    return true;
}

bool refuses_new(const void *caller)
{
    if ((current == nullptr) || (exemptions > 0) || calls_inside()) {
        return false;
    }
    search where{reinterpret_cast<uintptr_t>(caller)};
    _Unwind_Backtrace(look, &where);
    return where.ours && refuses();
}

} // namespace

armed::armed(plan &what)
{
    made    = 0;
    current = &what;
}

armed::~armed()
{
    current = nullptr;
}

} // namespace alloc_faults

using alloc_faults::calls_inside;
using alloc_faults::refuses;
using alloc_faults::refuses_new;

extern "C" {

void *__real_mmap(void *, size_t, int, int, int, off_t);

void *__wrap_mmap(void *at, size_t size, int access, int flags, int fd,
                  off_t offset)
{
    return refuses() ? MAP_FAILED
                     : __real_mmap(at, size, access, flags, fd, offset);
}

} // extern "C"

namespace {

void *allocate(size_t size, size_t alignment, const void *caller)
{
    void *memory = nullptr;

    if (refuses_new(caller) ||
        (posix_memalign(&memory, alignment, size ? size : 1) != 0)) {
        return nullptr;
    }
    return memory;
}

void *or_throw(void *memory)
{
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}

void release(void *memory)
{
    calls_inside();
    free(memory);
}

constexpr size_t natural = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

} // namespace

// All forms, for objects and arrays: the C++ library's own forms would call one
// of these, but a sanitizer's would not.
#define CALLER __builtin_return_address(0)
#define FORMS(_of)                                                             \
    void *operator new _of(size_t size)                                        \
    {                                                                          \
        return or_throw(allocate(size, natural, CALLER));                      \
    }                                                                          \
    void *operator new _of(size_t size, const std::nothrow_t &) noexcept       \
    {                                                                          \
        return allocate(size, natural, CALLER);                                \
    }                                                                          \
    void *operator new _of(size_t size, std::align_val_t alignment)            \
    {                                                                          \
        return or_throw(allocate(size, size_t(alignment), CALLER));            \
    }                                                                          \
    void *operator new _of(size_t size, std::align_val_t alignment,            \
                           const std::nothrow_t &) noexcept                    \
    {                                                                          \
        return allocate(size, size_t(alignment), CALLER);                      \
    }                                                                          \
    void operator delete _of(void *memory) noexcept                            \
    {                                                                          \
        release(memory);                                                       \
    }                                                                          \
    void operator delete _of(void *memory, size_t) noexcept                    \
    {                                                                          \
        release(memory);                                                       \
    }                                                                          \
    void operator delete _of(void *memory, std::align_val_t) noexcept          \
    {                                                                          \
        release(memory);                                                       \
    }                                                                          \
    void operator delete _of(void *memory, size_t, std::align_val_t) noexcept  \
    {                                                                          \
        release(memory);                                                       \
    }
FORMS()
FORMS([])
