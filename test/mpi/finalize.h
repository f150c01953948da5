// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

namespace ucx_ib_dmabuf::test {

// MPI_Finalize(). In MPICH's, a rank may be gone with its queue pairs while
// another one still flushes what it sends to them; over soft-RoCE that one
// waits for ever (docs/guide.md). So ranks of MPICH leave without, which
// Hydra takes for a good end.
inline void finalize()
{
#ifdef MPICH_VERSION
    MPI_Barrier(MPI_COMM_WORLD);
#else
    MPI_Finalize();
#endif
}

} // namespace ucx_ib_dmabuf::test
