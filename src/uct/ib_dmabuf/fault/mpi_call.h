// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_FAULT_MPI_CALL_H_
#define UCX_IB_DMABUF_FAULT_MPI_CALL_H_

namespace ucx_ib_dmabuf {

// A call of MPI's that a thread is in.
struct mpi_call {
    const char *name    = nullptr; // "MPI_Allreduce"; "": not known; null: none
    const char *library = nullptr; // the MPI's path, no tool's
};

// The one that the program made, of those that the calling thread is in: the
// outermost function with such a name on its stack, by the symbols that
// libraries export; not known where there is none, but another one of an MPI's
// library. The outermost may be a tool's; the innermost is the MPI's. For
// signal handlers: takes no memory, and with glibc 2.35 and GCC 12 no lock;
// before, it waits while another thread changes the list of libraries, which
// runs nothing of theirs. The text belongs to the library.
mpi_call find_mpi_call() noexcept;

} // namespace ucx_ib_dmabuf

#endif
