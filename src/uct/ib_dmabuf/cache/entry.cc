// SPDX-License-Identifier: BSD-3-Clause
#include "entry.h"

namespace ucx_ib_dmabuf {

void age_list::add(entry *e)
{
    e->older                                        = newest_;
    e->newer                                        = nullptr;
    (newest_ != nullptr ? newest_->newer : oldest_) = e;
    newest_                                         = e;
}

void age_list::remove(entry *e)
{
    (e->older != nullptr ? e->older->newer : oldest_) = e->newer;
    (e->newer != nullptr ? e->newer->older : newest_) = e->older;
    e->older = e->newer = nullptr;
}

} // namespace ucx_ib_dmabuf
