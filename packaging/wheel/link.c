/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a wheel has in the place of symbolic links to the plug-in, which it
 * cannot have; copies would be several plug-ins in a process. It needs the
 * plug-in and passes its start on: UCX calls a start of the very file that it
 * has opened.
 */
signed char ucx_ib_dmabuf_start(void);
signed char ucs_module_global_init(void);

/* A ucs_status_t. */
signed char ucs_module_global_init(void)
{
    return ucx_ib_dmabuf_start();
}
