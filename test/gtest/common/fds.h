// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_COMMON_FDS_H_
#define TEST_GTEST_COMMON_FDS_H_

#include <dirent.h>

// How many file descriptors this process has open.
inline int count_fds()
{
    int count = 0;
    DIR *dir  = opendir("/proc/self/fd");

    while (readdir(dir) != nullptr) {
        ++count;
    }
    closedir(dir);
    return count;
}

#endif
