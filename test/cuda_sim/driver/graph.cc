// SPDX-License-Identifier: BSD-3-Clause
//
// Graphs: they stay empty, and cannot be instantiated. A node that allocates
// gets an address without memory, which it would get when a graph runs.
#include "../compat.h"
#include "calls.h"
#include "context.h"
#include "stream.h"

using namespace ucx_ib_dmabuf::sim;

CUgraph ucx_ib_dmabuf::sim::any_graph()
{
    static char graph;
    return reinterpret_cast<CUgraph>(&graph);
}

SIM_ENTRY_IS(driver, cuGraphCreate, give(flags ? nullptr : out, any_graph()),
             CUgraph *out, unsigned flags)

// A graph belongs to no context: an invalid one is refused before cuInit, too.
SIM_ENTRY(anytime, cuGraphDestroy, CUgraph graph)
{
    if (graph != any_graph())
        return CUDA_ERROR_INVALID_VALUE;
    return state == State::ready ? CUDA_SUCCESS : state_error();
}

SIM_ENTRY_IS(anytime, cuGraphExecDestroy, CUDA_ERROR_INVALID_VALUE, CUgraphExec)

// Nothing is cached for graphs.
SIM_ENTRY_IS(driver, cuDeviceGraphMemTrim, check(true, device), CUdevice device)

#if CUDA_VERSION >= 12030
static CUresult add(CUgraphNode *node, CUgraph graph, CUgraphNodeParams *params)
{
    if (!node || graph != any_graph() || !params || !params->alloc.bytesize ||
        params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard guard(memory().lock);
    params->alloc.dptr =
        memory().reserve(round_up(params->alloc.bytesize, block_size));
    *node = reinterpret_cast<CUgraphNode>(graph);
    return CUDA_SUCCESS;
}

SIM_ENTRY_IS(driver, cuGraphAddNode_v2, add(node, graph, params),
             CUgraphNode *node, CUgraph graph, const CUgraphNode *,
             const void *, size_t, CUgraphNodeParams *params)
SIM_ENTRY_IS(driver, cuGraphAddNode_v3, add(node, graph, params),
             CUgraphNode *node, CUgraph graph, const CUgraphNode *,
             const void *, size_t, CUgraphNodeParams *params)
#endif
