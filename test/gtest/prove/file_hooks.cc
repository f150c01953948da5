// SPDX-License-Identifier: BSD-3-Clause
#include "file_hooks.h"
#include <cstdio>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace {

void call(std::function<void()> &hook)
{
    if (hook) {
        std::exchange(hook, nullptr)();
    }
}

} // namespace

// Before libc's.
extern "C" {

int flock(int fd, int how) noexcept
{
    if (how != LOCK_UN) {
        call(prove_test::hooks.before_lock);
    }
    const auto result = static_cast<int>(syscall(SYS_flock, fd, how));
    if (how == LOCK_UN) {
        call(prove_test::hooks.after_unlock);
    }
    return result;
}

int unlinkat(int folder, const char *name, int flags) noexcept
{
    call(prove_test::hooks.before_unlink);
    return static_cast<int>(syscall(SYS_unlinkat, folder, name, flags));
}

int renameat(int from, const char *old_name, int to, const char *name) noexcept
{
    call(prove_test::hooks.before_rename);
    return static_cast<int>(
        syscall(SYS_renameat2, from, old_name, to, name, 0));
}
}
