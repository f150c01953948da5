// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_FAULT_HANDLER_H_
#define UCX_IB_DMABUF_FAULT_HANDLER_H_

#include <cstdint>

namespace ucx_ib_dmabuf {

// An MPI that is built without CUDA touches GPU memory with the CPU in some of
// its calls (docs/stock-mpi.md), of which the process dies. From now on a line
// on stderr says before that what it died of, once: the address, and the
// MPI call.
//
// Puts a handler of ours before those that SIGSEGV and SIGBUS have, once for
// the process and for good. What came before gets every signal as if ours were
// not there; what the program installs later replaces ours. Thread-safe.
//
// `is_gpu_memory` is asked in the handler: it may take no lock that it would
// wait for, and no memory, and call no driver.
using gpu_memory_test = bool (*)(uintptr_t address) noexcept;
void tell_of_touches(gpu_memory_test is_gpu_memory) noexcept;

} // namespace ucx_ib_dmabuf

#endif
