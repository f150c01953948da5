// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

// Ends the program, after a message.
[[noreturn]] void fail(const char *what);

// Loads so many copies of a small library, as a large program has them.
void load_libraries(size_t count);
