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
