// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_MD_VFS_FILE_H_
#define TEST_GTEST_MD_VFS_FILE_H_

#include <common/ucx_headers.h>
#include <string>
extern "C" {
#include <ucs/datastruct/string_buffer.h>
#include <ucs/vfs/base/vfs_obj.h>
}

// What a file of the tree says that UCX shows of itself; "none" if there is
// none.
inline std::string vfs_file(const char *path)
{
    // With room for what another UCX has in one.
    union {
        ucs_string_buffer_t buffer;
        char room[256];
    } out;

    ucs_string_buffer_init(&out.buffer);
    std::string text = "none";
    if (ucs_vfs_path_read_file(path, &out.buffer) == UCS_OK) {
        text = ucs_string_buffer_cstr(&out.buffer);
    }
    ucs_string_buffer_cleanup(&out.buffer);
    return text;
}

#endif
