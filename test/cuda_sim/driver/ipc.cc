// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA IPC, as between processes that cannot reach each other's GPU: a handle
// can be had, but not opened. UCX takes this for "peer not reachable" and
// uses the network; a failing cuIpcGetMemHandle it would report as an error.
#include "calls.h"
#include "context.h"

#include <cstring>
#include <unistd.h>

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(cuIpcGetMemHandle, CUipcMemHandle *out, CUdeviceptr address)
{
    std::shared_lock guard(memory().lock);
    Allocation *found = memory().find(address);
    if (!out || !found || found->kind != Kind::device)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t content[2] = {uint64_t(getpid()), found->id};
    memset(out, 0, sizeof(*out));
    memcpy(out, content, sizeof(content));
    return CUDA_SUCCESS;
}

#undef cuIpcOpenMemHandle
SIM_ENTRY_BOTH(cuIpcOpenMemHandle, _v2, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
               CUdeviceptr *, CUipcMemHandle, unsigned)
SIM_ENTRY_IS(cuIpcCloseMemHandle, CUDA_ERROR_INVALID_VALUE, CUdeviceptr)
SIM_ENTRY_IS(cuIpcGetEventHandle, CUDA_ERROR_NOT_SUPPORTED, CUipcEventHandle *,
             CUevent)
SIM_ENTRY_IS(cuIpcOpenEventHandle, CUDA_ERROR_NOT_SUPPORTED, CUevent *,
             CUipcEventHandle)
