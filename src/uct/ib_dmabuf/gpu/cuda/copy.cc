// SPDX-License-Identifier: BSD-3-Clause
#include "context.h"
#include "cuda_vendor.h"
#include <cerrno>
#include <cstring>
#include <mutex>
#include <sys/uio.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

// A context, whose handle a later one may get. id 0: the driver does not
// distinguish contexts (before CUDA 12).
struct context_id {
    CUcontext handle      = nullptr;
    unsigned long long id = 0;

    bool operator==(const context_id &) const = default;
};

context_id current_context(const driver &cuda)
{
    context_id now;
    const bool known = (cuda.ctx_get_id != nullptr) &&
                       (cuda.ctx_get_current(&now.handle) == CUDA_SUCCESS) &&
                       (cuda.ctx_get_id(now.handle, &now.id) == CUDA_SUCCESS);
    return known ? now : context_id{};
}

// A stream for each context, which ends with it.
class stream_table {
public:
    CUstream find(const context_id &context)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        for (const entry &one : entries_) {
            if (one.context == context) {
                return one.stream;
            }
        }
        return nullptr;
    }

    // Returns false if the context is not known, another thread was faster, or
    // the table is full.
    bool keep(const context_id &context, CUstream stream)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        for (entry &one : entries_) {
            const CUcontext handle = one.context.handle;
            if ((handle == nullptr) || (handle == context.handle)) {
                if (one.context == context) {
                    return false;
                }
                one = {context, stream};
                return true;
            }
        }
        return false;
    }

private:
    struct entry {
        context_id context;
        CUstream stream = nullptr;
    };

    std::mutex mutex_;
    entry entries_[64];
};

constinit stream_table streams;

// Copies in the current context, in a stream that waits for no other: a kernel
// of the program may itself wait for the message that is being copied.
CUresult copy_and_wait(const driver &cuda, CUdeviceptr to, CUdeviceptr from,
                       size_t length)
{
    const context_id context = current_context(cuda);
    CUstream stream          = streams.find(context);
    bool is_kept             = (stream != nullptr);

    if (!is_kept) {
        const CUresult made =
            cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING);
        if (made != CUDA_SUCCESS) {
            return made;
        }
        is_kept = streams.keep(context, stream);
    }
    CUresult result = cuda.memcpy_async(to, from, length, stream);
    if (result == CUDA_SUCCESS) {
        result = cuda.stream_synchronize(stream);
    }
    if (!is_kept) {
        cuda.stream_destroy(stream);
    }
    return result;
}

// Copies host memory, for a message of a process to itself. The kernel copies:
// if the memory is a GPU's after all, a CPU access would crash.
CUresult copy_without_context(void *to, const void *from, size_t length,
                              bool is_host)
{
    iovec target = {to, length};
    iovec source = {const_cast<void *>(from), length};

    while (target.iov_len > 0) {
        const ssize_t done =
            process_vm_readv(getpid(), &target, 1, &source, 1, 0);
        if ((done < 0) && is_host && ((errno == ENOSYS) || (errno == EPERM))) {
            memmove(target.iov_base, source.iov_base, target.iov_len);
            break; // a container may forbid the call
        }
        if (done <= 0) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        for (iovec *side : {&target, &source}) {
            side->iov_base = static_cast<char *>(side->iov_base) + done;
            side->iov_len -= static_cast<size_t>(done);
        }
    }
    return CUDA_SUCCESS;
}

// Mapped memory is accessible to the GPUs that were given access: perhaps only
// in the context of the second address.
CUresult copy_in_a_context(const driver &cuda, void *to, const void *from,
                           size_t length, uintptr_t gpu, bool may_be_host)
{
    const relaxed_capture relaxed(cuda);
    const auto target = reinterpret_cast<uintptr_t>(to);
    const auto source = reinterpret_cast<uintptr_t>(from);
    bool is_host = true, is_known = false;
    CUresult result = CUDA_SUCCESS;

    for (const uintptr_t side : {gpu, target ^ source ^ gpu}) {
        scoped_context context(cuda, side);
        if (context.is_unknown() && may_be_host) {
            is_host &= (context.result() == CUDA_ERROR_INVALID_VALUE);
            continue;
        }
        result   = (context.result() == CUDA_SUCCESS)
                       ? copy_and_wait(cuda, target, source, length)
                       : context.result();
        is_known = true;
        if ((result != CUDA_ERROR_INVALID_VALUE) || !may_be_host) {
            break;
        }
    }
    return is_known ? result : copy_without_context(to, from, length, is_host);
}

} // namespace

ucs_status_t copy_memory(const driver &cuda, void *to, const void *from,
                         size_t length, const void *gpu, bool may_be_host)
{
    const CUresult result = copy_in_a_context(
        cuda, to, from, length, reinterpret_cast<uintptr_t>(gpu), may_be_host);
    if (result != CUDA_SUCCESS) {
        log_error("ib_dmabuf: cuMemcpyAsync(%p, %p, %zu bytes) failed: %s", to,
                  from, length, cuda.error(result).c_str());
    }
    return to_status(result);
}

ucs_status_t cuda_vendor::copy_to_host(void *host, uintptr_t device,
                                       size_t length)
{
    const auto *from = reinterpret_cast<const void *>(device);
    return copy_memory(cuda_, host, from, length, from, false);
}

ucs_status_t cuda_vendor::copy_from_host(uintptr_t device, const void *host,
                                         size_t length)
{
    auto *to = reinterpret_cast<void *>(device);
    return copy_memory(cuda_, to, host, length, to, false);
}

} // namespace ucx_ib_dmabuf
