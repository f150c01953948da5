// SPDX-License-Identifier: BSD-3-Clause
#include "vfs.h"
#include "look_up.h"
#include "types.h"
#include <new>

namespace ucx_ib_dmabuf {
namespace {

struct ucs_string_buffer; // UCX's

using append_text = void(ucs_string_buffer *, const char *format, ...);
using read_file   = void(void *owner, ucs_string_buffer *out, void *append,
                       uint64_t text);

// A file without a text is empty.
void read(void *, ucs_string_buffer *out, void *append, uint64_t text) noexcept
try {
    const std::string now = reinterpret_cast<file_text *>(text)();
    reinterpret_cast<append_text *>(append)(out, "%s", now.c_str());
} catch (const std::bad_alloc &) {
}

} // namespace

bool add_vfs_file(const library &ucx, void *owner, const char *name,
                  file_text *text)
{
    class look_up in(ucx);
    ucs_status_t (*add_folder)(void *parent, void *owner, const char *name,
                               ...)                 = nullptr;
    ucs_status_t (*add_file)(void *owner, read_file *, void *, uint64_t,
                             const char *name, ...) = nullptr;
    append_text *append                             = nullptr;

    in.find("ucs_vfs_obj_add_dir", &add_folder);
    in.find("ucs_vfs_obj_add_ro_file", &add_file);
    in.find("ucs_string_buffer_appendf", &append);
    return (in.missing() == nullptr) &&
           (add_folder(nullptr, owner, "%s", "ib_dmabuf") == UCS_OK) &&
           (add_file(owner, read, reinterpret_cast<void *>(append),
                     reinterpret_cast<uintptr_t>(text), "%s", name) == UCS_OK);
}

} // namespace ucx_ib_dmabuf
