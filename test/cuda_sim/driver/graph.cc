// SPDX-License-Identifier: BSD-3-Clause
//
// Graphs: they stay empty, and cannot be instantiated. A node that allocates
// gets an address without memory, which it would get when a graph runs.
#include "../compat.h"
#include "calls.h"
#include "capture.h"
#include "context.h"

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(cuGraphCreate, CUgraph *out, unsigned flags)
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = any_graph();
    return CUDA_SUCCESS;
}

// A graph belongs to no context: an invalid one is refused before cuInit, too.
SIM_ENTRY_ANYTIME(cuGraphDestroy, CUgraph graph)
{
    if (graph != any_graph())
        return CUDA_ERROR_INVALID_VALUE;
    return state == State::ready ? CUDA_SUCCESS : state_error();
}

SIM_ENTRY_ANYTIME(cuGraphExecDestroy, CUgraphExec)
{
    return CUDA_ERROR_INVALID_VALUE;
}

// Nothing is cached for graphs.
SIM_ENTRY_IS(cuDeviceGraphMemTrim,
             valid_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE,
             CUdevice device)

#if CUDA_VERSION >= 12030
static CUresult add(CUgraphNode *node, CUgraph graph, CUgraphNodeParams *params)
{
    if (!node || graph != any_graph() || !params || !params->alloc.bytesize ||
        params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(memory().lock);
    params->alloc.dptr =
        memory().space.reserve(round_up(params->alloc.bytesize, block_size));
    *node = reinterpret_cast<CUgraphNode>(graph);
    return CUDA_SUCCESS;
}

SIM_ENTRY_IS(cuGraphAddNode_v2, add(node, graph, params), CUgraphNode *node,
             CUgraph graph, const CUgraphNode *, const void *, size_t,
             CUgraphNodeParams *params)
SIM_ENTRY_IS(cuGraphAddNode_v3, add(node, graph, params), CUgraphNode *node,
             CUgraph graph, const CUgraphNode *, const void *, size_t,
             CUgraphNodeParams *params)
#endif
