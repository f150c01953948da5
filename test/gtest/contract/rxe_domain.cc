// SPDX-License-Identifier: BSD-3-Clause
#include "rxe_domain.h"
#include "../md/memory_domain.h"

rxe_domain::rxe_domain() : opened_(std::make_unique<memory_domain>()) {}
rxe_domain::~rxe_domain() = default;

void *rxe_domain::md() const
{
    return opened_->get();
}

ibv_pd *rxe_domain::pd() const
{
    return opened_->pd();
}
