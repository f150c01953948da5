// SPDX-License-Identifier: BSD-3-Clause
#include "runtime.h"

using namespace ucx_ib_dmabuf::sim;

SIM_RUNTIME(cudaError_t, cudaStreamCreate, cudaStream_t *out)
{
    SIM_FORWARD(cuStreamCreateWithPriority, out, 0, 0);
}

SIM_RUNTIME(cudaError_t, cudaStreamCreateWithFlags, cudaStream_t *out,
            unsigned flags)
{
    SIM_FORWARD(cuStreamCreateWithPriority, out, flags, 0);
}

SIM_RUNTIME(cudaError_t, cudaStreamCreateWithPriority, cudaStream_t *out,
            unsigned flags, int priority)
{
    SIM_FORWARD(cuStreamCreateWithPriority, out, flags, priority);
}

SIM_RUNTIME(cudaError_t, cudaStreamDestroy, cudaStream_t stream)
{
    SIM_FORWARD(cuStreamDestroy, stream);
}

SIM_RUNTIME(cudaError_t, cudaStreamSynchronize, cudaStream_t stream)
{
    SIM_FORWARD(cuStreamSynchronize, stream);
}

SIM_RUNTIME(cudaError_t, cudaStreamQuery, cudaStream_t stream)
{
    SIM_FORWARD(cuStreamQuery, stream);
}

SIM_RUNTIME(cudaError_t, cudaStreamWaitEvent, cudaStream_t stream,
            cudaEvent_t event, unsigned flags)
{
    SIM_FORWARD(cuStreamWaitEvent, stream, event, flags);
}

SIM_RUNTIME(cudaError_t, cudaLaunchHostFunc, cudaStream_t stream,
            cudaHostFn_t function, void *argument)
{
    SIM_FORWARD(cuLaunchHostFunc, stream, function, argument);
}

SIM_RUNTIME(cudaError_t, cudaEventCreate, cudaEvent_t *out)
{
    SIM_FORWARD(cuEventCreate, out, 0);
}

SIM_RUNTIME(cudaError_t, cudaEventCreateWithFlags, cudaEvent_t *out,
            unsigned flags)
{
    SIM_FORWARD(cuEventCreate, out, flags);
}

SIM_RUNTIME(cudaError_t, cudaEventDestroy, cudaEvent_t event)
{
    SIM_FORWARD(cuEventDestroy, event);
}

SIM_RUNTIME(cudaError_t, cudaEventRecord, cudaEvent_t event,
            cudaStream_t stream)
{
    SIM_FORWARD(cuEventRecord, event, stream);
}

SIM_RUNTIME(cudaError_t, cudaEventQuery, cudaEvent_t event)
{
    SIM_FORWARD(cuEventQuery, event);
}

SIM_RUNTIME(cudaError_t, cudaEventSynchronize, cudaEvent_t event)
{
    SIM_FORWARD(cuEventSynchronize, event);
}

SIM_RUNTIME(cudaError_t, cudaEventElapsedTime, float *out, cudaEvent_t begin,
            cudaEvent_t end)
{
    SIM_FORWARD(cuEventElapsedTime, out, begin, end);
}
