// SPDX-License-Identifier: BSD-3-Clause
#include "staging.h"
#include "../cuda/copy.h"
#include "../verbs/dmabuf_mr.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <ucs/debug/log_def.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

staging_buffer::staging_buffer(const driver &cuda, uintptr_t address,
                               size_t length)
    : cuda_(cuda), address_(address), length_(length)
{
}

std::unique_ptr<staging_buffer>
staging_buffer::create(const driver &cuda, ibv_pd *pd, uintptr_t address,
                       size_t length, int access)
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::unique_ptr<staging_buffer> buffer(
        new (std::nothrow) staging_buffer(cuda, address, length));

    if (!buffer) {
        return nullptr;
    }
    if (posix_memalign(&buffer->memory_, page, length + page) != 0) {
        buffer->memory_ = nullptr;
    }
    buffer->before_ = malloc(length);
    if ((buffer->memory_ == nullptr) || (buffer->before_ == nullptr)) {
        ucs_error("ib_dmabuf: no %zu bytes of host memory to stage a message",
                  length);
        return nullptr;
    }
    // Address and iova must agree in their page offset (ibv_reg_mr_iova(3)).
    buffer->bytes_ = static_cast<char *>(buffer->memory_) + address % page;
    if (cuda_copy_to_host(cuda, buffer->bytes_, address, length) != UCS_OK) {
        return nullptr;
    }
    memcpy(buffer->before_, buffer->bytes_, length);
    buffer->mr_ = ibv_reg_mr_iova(pd, buffer->bytes_, length, address, access);
    if (buffer->mr_ == nullptr) {
        ucs_error("ib_dmabuf: ibv_reg_mr_iova(%zu bytes of host memory) "
                  "failed: %s",
                  length, strerror(errno));
        return nullptr;
    }
    return buffer;
}

staging_buffer::~staging_buffer()
{
    if (mr_ != nullptr) {
        verbs_dereg_mr(mr_);
    }
    free(memory_);
    free(before_);
}

void staging_buffer::finish()
{
    const char *before = static_cast<const char *>(before_);
    const char *end    = bytes_ + length_;
    const char *first  = std::mismatch(bytes_, bytes_ + length_, before).first;

    if (first == end) {
        return;
    }
    const char *last = end;
    while (last[-1] == before[last - 1 - bytes_]) {
        --last;
    }
    // A failure is logged as an error there; UCX has no way to fail here.
    cuda_copy_from_host(cuda_, address_ + static_cast<size_t>(first - bytes_),
                        first, static_cast<size_t>(last - first));
}

} // namespace ucx_ib_dmabuf
