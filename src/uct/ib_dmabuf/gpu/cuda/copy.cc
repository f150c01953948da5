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

// Stores a stream for each context; creates and destroys none. A context's
// streams end with it, and another context may get its handle: the id
// distinguishes them.
class stream_table {
public:
    CUstream find(CUcontext context, unsigned long long id)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        for (const entry &one : entries_) {
            if ((one.context == context) && (one.id == id)) {
                return one.stream;
            }
        }
        return nullptr;
    }

    // Returns false if another thread was faster, or the table is full.
    bool keep(CUcontext context, unsigned long long id, CUstream stream)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        for (entry &one : entries_) {
            if ((one.context == nullptr) || (one.context == context)) {
                if ((one.context == context) && (one.id == id)) {
                    return false;
                }
                one = {context, id, stream};
                return true;
            }
        }
        return false;
    }

private:
    struct entry {
        CUcontext context     = nullptr;
        unsigned long long id = 0;
        CUstream stream       = nullptr;
    };

    std::mutex mutex_;
    entry entries_[64];
};

constinit stream_table streams;

// A stream of the current context that waits for no other: a kernel of the
// program may itself wait for the message that is being copied. It lives as
// long as its context if the driver distinguishes contexts (CUDA 12), else as
// long as this object.
class copy_stream {
public:
    explicit copy_stream(const driver &cuda);
    ~copy_stream();
    copy_stream(const copy_stream &)            = delete;
    copy_stream &operator=(const copy_stream &) = delete;

    CUresult result() const { return result_; }
    CUstream get() const { return stream_; }

private:
    const driver &cuda_;
    CUstream stream_ = nullptr;
    CUresult result_ = CUDA_SUCCESS;
    bool kept_       = false;
};

copy_stream::copy_stream(const driver &cuda) : cuda_(cuda)
{
    CUcontext context     = nullptr;
    unsigned long long id = 0;
    const bool known      = (cuda.ctx_get_id != nullptr) &&
                       (cuda.ctx_get_current(&context) == CUDA_SUCCESS) &&
                       (cuda.ctx_get_id(context, &id) == CUDA_SUCCESS);

    if (known) {
        stream_ = streams.find(context, id);
        kept_   = (stream_ != nullptr);
    }
    if (!kept_) {
        result_ = cuda.stream_create(&stream_, CU_STREAM_NON_BLOCKING);
        kept_   = (result_ == CUDA_SUCCESS) && known &&
                streams.keep(context, id, stream_);
    }
}

copy_stream::~copy_stream()
{
    if ((result_ == CUDA_SUCCESS) && !kept_) {
        cuda_.stream_destroy(stream_);
    }
}

// Copies in the current context.
CUresult copy_and_wait(const driver &cuda, CUdeviceptr to, CUdeviceptr from,
                       size_t length)
{
    copy_stream stream(cuda);
    CUresult result = stream.result();

    if (result == CUDA_SUCCESS) {
        result = cuda.memcpy_async(to, from, length, stream.get());
    }
    if (result == CUDA_SUCCESS) {
        result = cuda.stream_synchronize(stream.get());
    }
    return result;
}

// Copies host memory to host memory, for a message of a process to itself.
// There may be no context, and this creates none. The kernel copies: if the
// memory is a GPU's after all, a CPU access would crash.
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
                           size_t length, uintptr_t gpu)
{
    const auto target = reinterpret_cast<uintptr_t>(to);
    const auto source = reinterpret_cast<uintptr_t>(from);
    bool is_host = true, is_known = false;
    CUresult result = CUDA_SUCCESS;

    for (const uintptr_t side : {gpu, target ^ source ^ gpu}) {
        scoped_context context(cuda, side);
        if (context.is_unknown()) {
            is_host &= (context.result() == CUDA_ERROR_INVALID_VALUE);
            continue;
        }
        result   = (context.result() == CUDA_SUCCESS)
                       ? copy_and_wait(cuda, target, source, length)
                       : context.result();
        is_known = true;
        if (result != CUDA_ERROR_INVALID_VALUE) {
            break;
        }
    }
    return is_known ? result : copy_without_context(to, from, length, is_host);
}

ucs_status_t report(const driver &cuda, CUresult result, const void *to,
                    const void *from, size_t length)
{
    if (result != CUDA_SUCCESS) {
        log_error("ib_dmabuf: cuMemcpyAsync(%p, %p, %zu bytes) failed: %s", to,
                  from, length, cuda.error(result).c_str());
    }
    return to_status(result);
}

// In the context that owns the memory of the GPU.
ucs_status_t copy_gpu_memory(const driver &cuda, uintptr_t to, uintptr_t from,
                             size_t length, uintptr_t gpu)
{
    relaxed_capture relaxed(cuda);
    scoped_context context(cuda, gpu);
    const CUresult result = (context.result() == CUDA_SUCCESS)
                                ? copy_and_wait(cuda, to, from, length)
                                : context.result();

    return report(cuda, result, reinterpret_cast<const void *>(to),
                  reinterpret_cast<const void *>(from), length);
}

} // namespace

ucs_status_t copy_memory(const driver &cuda, void *to, const void *from,
                         size_t length, const void *gpu)
{
    relaxed_capture relaxed(cuda);
    return report(cuda,
                  copy_in_a_context(cuda, to, from, length,
                                    reinterpret_cast<uintptr_t>(gpu)),
                  to, from, length);
}

ucs_status_t cuda_vendor::copy_to_host(void *host, uintptr_t device,
                                       size_t length)
{
    return copy_gpu_memory(cuda_, reinterpret_cast<uintptr_t>(host), device,
                           length, device);
}

ucs_status_t cuda_vendor::copy_from_host(uintptr_t device, const void *host,
                                         size_t length)
{
    return copy_gpu_memory(cuda_, device, reinterpret_cast<uintptr_t>(host),
                           length, device);
}

} // namespace ucx_ib_dmabuf
