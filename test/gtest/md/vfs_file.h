// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_MD_VFS_FILE_H_
#define TEST_GTEST_MD_VFS_FILE_H_

#include <dlfcn.h>
#include <string>

// What a file of the tree says that UCX shows of itself; "none" if there is
// none.
inline std::string vfs_file(const char *path)
{
    // ucs_string_buffer_t, of whatever size.
    alignas(16) char buffer[256];
    const auto call = [](const char *name, auto function) {
        return reinterpret_cast<decltype(function)>(dlsym(RTLD_DEFAULT, name));
    };
    using void_function = void (*)(void *);
    using read_function = signed char (*)(const char *, void *);
    using text_function = const char *(*)(const void *);

    call("ucs_string_buffer_init", void_function())(buffer);
    std::string text = "none";
    if (call("ucs_vfs_path_read_file", read_function())(path, buffer) == 0) {
        text = call("ucs_string_buffer_cstr", text_function())(buffer);
    }
    call("ucs_string_buffer_cleanup", void_function())(buffer);
    return text;
}

#endif
