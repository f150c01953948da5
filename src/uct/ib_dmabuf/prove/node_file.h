// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_PROVE_NODE_FILE_H_
#define UCX_IB_DMABUF_PROVE_NODE_FILE_H_

#include <span>
#include <string>
#include <string_view>

namespace ucx_ib_dmabuf {

// The paths that carry, as this user's processes on this node have found since
// it booted: a line for each, with a checksum. Read and written by nobody else;
// what is not exactly as it should be is as if it was not there. A path that
// does not carry is not in it: who asks again sees at once that it is mended.
// Thread-safe; never fails, at worst nothing is kept.
class node_file {
public:
    // A folder of its own, made when the first path is kept. Of the user's, on
    // this node and until it boots: /dev/shm/ucx-ib-dmabuf-UID.
    node_file();
    explicit node_file(std::string folder) : folder_(std::move(folder)) {}

    bool has(std::string_view key) const noexcept;
    void keep(std::string_view key) const noexcept;
    // If need be with all the others.
    void drop(std::span<const std::string> keys) const noexcept;
    void drop(const std::string &key) const noexcept
    {
        drop(std::span(&key, key.empty() ? 0 : 1));
    }
    void drop_all() const noexcept;

private:
    const std::string folder_;
};

} // namespace ucx_ib_dmabuf

#endif
