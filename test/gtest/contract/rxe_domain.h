// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>
#include <memory>

class memory_domain;

// uct_ib's domain of the lab's device, for those that include no header of
// UCX's.
class rxe_domain {
public:
    rxe_domain();
    ~rxe_domain();

    void *md() const; // uct_md_h
    ibv_pd *pd() const;

private:
    std::unique_ptr<memory_domain> opened_;
};
