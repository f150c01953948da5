// SPDX-License-Identifier: BSD-3-Clause
//
// A tool stands before an MPI's functions.
int PMPI_Allreduce(void *buffer);
int MPI_Reduce(void *buffer);

static volatile int calls;

int MPI_Reduce(void *buffer)
{
    const int result = PMPI_Allreduce(buffer);

    ++calls; // not a tail call
    return result;
}
