// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_MPI_FILES_H_
#define UCX_IB_DMABUF_TEST_MPI_FILES_H_

#include <cstddef>

namespace ucx_ib_dmabuf::test {

// Files that this process has open, the memory of simulated GPUs left out, and
// those that are dma-bufs.
size_t count_files();
size_t count_dmabuf_files();

} // namespace ucx_ib_dmabuf::test

#endif
