/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process may load several UCX, such as the system's and a wheel's, under
 * different names and RTLD_LOCAL. These functions find the one of a caller.
 */
#pragma once

/*
 * Returns a symbol as found by the library that 'inside' (code or data) lies
 * in. If that belongs to no UCX, but to the plug-in, say, as found by the
 * library of 'caller', unless NULL. Returns NULL if only 'not_this' exists.
 */
void *ucx_copy_symbol(const void *inside, const void *caller,
                      const char *symbol, const void *not_this);

/* Returns a symbol of the library that is loaded under a name, else NULL. */
void *loaded_symbol(const char *library, const char *symbol);

/* Returns whether two addresses lie in the same library. */
int is_same_library(const void *one, const void *other);

/* Returns the path of the library that an address lies in. */
const char *path_of(const void *address);
