/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that calls the driver by name, like an application that is linked
 * with it.
 */
#include <stdint.h>

int cuMemFree_v2(uint64_t address);

int call_free(uint64_t address);
int call_free(uint64_t address)
{
    return cuMemFree_v2(address);
}
