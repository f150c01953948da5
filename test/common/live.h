// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <unistd.h>

// Requests the counters of a process and returns its answer, or "" if there is
// none in time. A good run never waits that long.
inline std::string ask(ucx_ib_dmabuf::live_reader &page,
                       unsigned milliseconds = 60'000)
{
    std::string answer;

    page.request();
    for (; (answer = page.answer()).empty() && (milliseconds > 0);
         --milliseconds) {
        usleep(1000);
    }
    return answer;
}
