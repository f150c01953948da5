// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_VFS_H_
#define UCX_IB_DMABUF_HOST_VFS_H_

#include <string>

namespace ucx_ib_dmabuf {

class library;

// What a file says whenever somebody reads it, in any thread. May throw
// std::bad_alloc.
using file_text = std::string();

// Adds a file "/ib_dmabuf/NAME" to the tree that a copy of UCX shows of itself
// (ucs/vfs, from 1.11 on), for as long as that is loaded. `owner` stands for
// the folder there, and is nobody else's. False: that UCX has no such tree, or
// no room. UCX calls with no lock of its own held.
bool add_vfs_file(const library &ucx, void *owner, const char *name,
                  file_text *text);

} // namespace ucx_ib_dmabuf

#endif
