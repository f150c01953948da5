// SPDX-License-Identifier: BSD-3-Clause
//
// Graphs: they stay empty, and cannot be instantiated. A node that allocates
// gets an address, behind which there is no memory until a graph runs.
#include "../compat.h"
#include "calls.h"
#include "capture.h"
#include "context.h"

namespace ucx_ib_dmabuf::sim {
namespace {

// A graph belongs to no context: what is no graph is said first.
CUresult destroy(bool exists)
{
    return !exists                 ? CUDA_ERROR_INVALID_VALUE
           : state != State::ready ? state_error()
                                   : CUDA_SUCCESS;
}

template <class Params>
CUresult add_allocation(CUgraphNode *node, CUgraph graph, Params *params)
{
    if (!node || graph != any_graph() || !params || !params->bytesize ||
        params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !valid_device(params->poolProps.location.id))
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(memory().lock);
    params->dptr =
        memory().space.reserve(round_up(params->bytesize, block_size));
    *node = reinterpret_cast<CUgraphNode>(graph);
    return params->dptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

#if CUDA_VERSION >= 12020
CUresult add(CUgraphNode *node, CUgraph graph, CUgraphNodeParams *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    return params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC
               ? add_allocation(node, graph, &params->alloc)
               : CUDA_ERROR_NOT_SUPPORTED;
}
#endif

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(cuGraphCreate, CUgraph *out, unsigned flags)
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = any_graph();
    return CUDA_SUCCESS;
}

SIM_ENTRY_ANYTIME(cuGraphDestroy, CUgraph graph)
{
    return destroy(graph == any_graph());
}

SIM_ENTRY_ANYTIME(cuGraphExecDestroy, CUgraphExec)
{
    return destroy(false);
}

// Nothing is cached for graphs.
SIM_ENTRY_IS(cuDeviceGraphMemTrim,
             valid_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE,
             CUdevice device)

SIM_ENTRY_IS(cuGraphAddMemAllocNode, add_allocation(node, graph, params),
             CUgraphNode *node, CUgraph graph, const CUgraphNode *, size_t,
             CUDA_MEM_ALLOC_NODE_PARAMS *params)

// The second one tells edges apart, the third one (CUDA 13.4) checks contexts.
#if CUDA_VERSION >= 12020
#undef cuGraphAddNode
SIM_ENTRY_IS(cuGraphAddNode, add(node, graph, params), CUgraphNode *node,
             CUgraph graph, const CUgraphNode *, size_t,
             CUgraphNodeParams *params)
SIM_ENTRY_IS(cuGraphAddNode_v2, add(node, graph, params), CUgraphNode *node,
             CUgraph graph, const CUgraphNode *, const void *, size_t,
             CUgraphNodeParams *params)
SIM_ENTRY_IS(cuGraphAddNode_v3, add(node, graph, params), CUgraphNode *node,
             CUgraph graph, const CUgraphNode *, const void *, size_t,
             CUgraphNodeParams *params)
#endif
