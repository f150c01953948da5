// SPDX-License-Identifier: BSD-3-Clause
#include "bar1.h"
#include "settings.h"

#include <cstdio>
#include <cstring>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>

namespace ucx_ib_dmabuf::sim {
namespace {

void name_of(int device, char *name, size_t size)
{
    snprintf(name, size, "cuda_sim-gpu%d", device);
}

} // namespace

// A line of the list: size, flags, mode, count, exporter, inode, name.
uint64_t bar1_used(int device)
{
    FILE *list = fopen(settings().dmabuf_list.c_str(), "re");
    if (!list)
        return 0;
    char line[512], wanted[32];
    name_of(device, wanted, sizeof(wanted));
    uint64_t sum = 0;
    while (fgets(line, sizeof(line), list)) {
        unsigned long long size;
        char name[64];
        if (sscanf(line, "%llu %*s %*s %*s %*s %*s %63s", &size, name) == 2 &&
            !strcmp(name, wanted))
            sum += size;
    }
    fclose(list);
    return sum;
}

uint64_t bar1_free(int device)
{
    uint64_t total = settings().bar1_bytes;
    // Listing takes time, and a window larger than the memory cannot run out
    // unless freed memory is held.
    if (total > settings().memory_bytes)
        return total;
    uint64_t used = bar1_used(device);
    return used < total ? total - used : 0;
}

void bar1_name(int fd, int device)
{
    char name[32];
    name_of(device, name, sizeof(name));
    ioctl(fd, DMA_BUF_SET_NAME, name);
}

} // namespace ucx_ib_dmabuf::sim
