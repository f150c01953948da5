// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_PROVE_PATH_FACTS_H_
#define UCX_IB_DMABUF_PROVE_PATH_FACTS_H_

#include "../host/verbs.h"
#include "../verbs/ladder.h"
#include <string>

namespace ucx_ib_dmabuf {

// All that a finding depends on: it holds for no path of which one differs.
struct path_facts {
    std::string boot, kernel;
    std::string gpu;                      // its place and its driver's version
    std::string nic, firmware, node_guid; // and the NIC's driver
    std::string nic_place; // in PCI's tree; none of a NIC in software
    std::string how;       // ladder step, and who registers with which access

    // One line. Empty if one is not known that every path has.
    std::string key() const;
};

// The GPU as its vendor tells it; what is not known is empty.
path_facts facts_of(const protection_domain &pd, std::string gpu,
                    ladder_step step, const std::string &how);

// Of a file, without its end; empty if there is none that can be read.
std::string first_line(const std::string &file);

} // namespace ucx_ib_dmabuf

#endif
