// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ucx_ib_dmabuf::test {

// Bytes of GPU memory registered with the NIC now.
uint64_t pinned_bytes();

// A run of a scenario in one of two ranks: first dry, before MPI starts, to
// measure the scenario's own driver calls, then with messages. Each figure is
// written to the rank's file at once, as the job may end at any time. The last
// figure of a name counts.
class run {
public:
    run(int rank, const char *figures);

    bool dry() const { return dry_; }
    int rank() const { return rank_; }
    void begin_messages();

    // Sends or receives a message in device memory; the ranks send in turn. The
    // receiver compares every byte.
    void message(uint8_t *at, size_t length);

    // A figure that is added up over both ranks.
    void figure(const char *name, uint64_t value) const;

private:
    const int rank_;
    const std::string figures_;
    bool dry_       = true;
    uint64_t next_  = 0;
    uint64_t right_ = 0; // messages received unchanged by this rank
};

using arguments = std::vector<std::string>;

void replay_trace(run &in, const arguments &how); // FILE KIND [KEEP]
void free_used(run &in, const arguments &how);    // KIND
void use_again(run &in, const arguments &how);    // KIND
void in_turn(run &in, const arguments &how);      // COUNT SIZE ROUNDS
void several_handles(run &in, const arguments &how);

} // namespace ucx_ib_dmabuf::test
