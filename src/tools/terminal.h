// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {

// The standard output, if it is a terminal.
struct terminal {
    bool has_escapes = false;                   // it supports escape sequences
    size_t width = SIZE_MAX, height = SIZE_MAX; // in characters

    terminal()
    {
        const char *type = getenv("TERM");
        winsize size{};

        has_escapes = (isatty(STDOUT_FILENO) != 0) && (type != nullptr) &&
                      (std::string_view(type) != "dumb");
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
            width  = (size.ws_col > 0) ? size.ws_col : SIZE_MAX;
            height = (size.ws_row > 4) ? size.ws_row : SIZE_MAX;
        }
    }
};

} // namespace ucx_ib_dmabuf::info
