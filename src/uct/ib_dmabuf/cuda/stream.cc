// SPDX-License-Identifier: BSD-3-Clause
#include "stream.h"
#include <mutex>

namespace ucx_ib_dmabuf {
namespace {

// The streams of contexts that had one; nothing is allocated or destroyed. A
// context takes its streams along when it ends, and another one can get its
// handle: the id tells.
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

    // False if another thread was faster, or the table is full.
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

} // namespace

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

} // namespace ucx_ib_dmabuf
