/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process may have several copies of UCX: the system's, a wheel's, under
 * names of their own, loaded RTLD_LOCAL. Which of them does a caller belong to?
 */
#pragma once

/*
 * A symbol as the library would have found it that 'inside', any code or data,
 * lies in; if that is no copy's, as what the plug-in adds to one, as the
 * caller's would have, unless he is null. Null if there is none but 'not_this'.
 */
void *ucx_copy_symbol(const void *inside, const void *caller,
                      const char *symbol, const void *not_this);

/* A symbol in the library that is loaded under a name; null if none is. */
void *loaded_symbol(const char *library, const char *symbol);

/* Whether two addresses lie in the same library. */
int is_same_library(const void *one, const void *other);

/* The path of the library that an address lies in. */
const char *path_of(const void *address);
