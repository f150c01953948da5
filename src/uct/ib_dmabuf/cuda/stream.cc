// SPDX-License-Identifier: BSD-3-Clause
#include "stream.h"
#include <map>
#include <mutex>
#include <new>

namespace ucx_ib_dmabuf {
namespace {

// The streams of all contexts that had one. A context takes its streams along
// when it ends, and another one can get its handle: the id tells.
class stream_table {
public:
    static stream_table &get()
    {
        // Never destroyed: copies may run while the process exits.
        static stream_table &all = *new stream_table();
        return all;
    }

    CUstream find(CUcontext context, unsigned long long id)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        auto known = streams_.find(context);
        return (known != streams_.end()) && (known->second.id == id)
                   ? known->second.stream
                   : nullptr;
    }

    // False if another thread was faster, or there is no memory.
    bool keep(CUcontext context, unsigned long long id, CUstream stream)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        try {
            entry &known = streams_[context];
            if (known.id == id) {
                return false;
            }
            known = {id, stream};
            return true;
        } catch (const std::bad_alloc &) {
            return false;
        }
    }

private:
    struct entry {
        unsigned long long id = 0; // no context has this one
        CUstream stream       = nullptr;
    };

    std::mutex mutex_;
    std::map<CUcontext, entry> streams_;
};

} // namespace

copy_stream::copy_stream(const driver &cuda) : cuda_(cuda)
{
    CUcontext context     = nullptr;
    unsigned long long id = 0;
    const bool known      = (cuda.ctx_get_id != nullptr) &&
                       (cuda.ctx_get_current(&context) == CUDA_SUCCESS) &&
                       (cuda.ctx_get_id(context, &id) == CUDA_SUCCESS);

    if (known) {
        stream_ = stream_table::get().find(context, id);
        kept_   = (stream_ != nullptr);
    }
    if (!kept_) {
        result_ = cuda.stream_create(&stream_, CU_STREAM_NON_BLOCKING);
        kept_   = (result_ == CUDA_SUCCESS) && known &&
                stream_table::get().keep(context, id, stream_);
    }
}

copy_stream::~copy_stream()
{
    if ((result_ == CUDA_SUCCESS) && !kept_) {
        cuda_.stream_destroy(stream_);
    }
}

} // namespace ucx_ib_dmabuf
