// SPDX-License-Identifier: BSD-3-Clause
//
// What an MPI without CUDA does with a buffer. As in real ones, what a program
// calls is a weak name of the profiling interface's function.
#include <string.h>

int PMPI_Allreduce(void *buffer);
int MPI_Allreduce(void *buffer) __attribute__((weak, alias("PMPI_Allreduce")));

static volatile int first_byte;

static __attribute__((noinline)) void reduce(void *buffer)
{
    memset(buffer, 1, 4096);
    first_byte = *(volatile char *)buffer; // not a tail call
}

int PMPI_Allreduce(void *buffer)
{
    reduce(buffer);
    return first_byte - 1;
}

// By this an MPI is known.
int PMPI_Init(void)
{
    return 0;
}

// As MPICH's: its work is done by a function that nobody else sees, and to
// which it jumps, so that no frame on the stack has its name.
static __attribute__((noinline)) int wait_for_all(void *buffer)
{
    reduce(buffer);
    return first_byte - 1;
}

__attribute__((optimize("optimize-sibling-calls"))) int
MPI_Waitall(void *buffer)
{
    return wait_for_all(buffer);
}
