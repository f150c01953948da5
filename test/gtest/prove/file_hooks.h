// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_PROVE_FILE_HOOKS_H_
#define TEST_GTEST_PROVE_FILE_HOOKS_H_

#include <functional>

namespace prove_test {

// What happens meanwhile while the node's file is written. Each is called once.
struct file_hooks {
    std::function<void()> before_lock;
    std::function<void()> after_unlock;
    std::function<void()> before_unlink; // after the old file was read
    std::function<void()> before_rename; // the new one is written
};
inline file_hooks hooks;

} // namespace prove_test

#endif
