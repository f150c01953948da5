// SPDX-License-Identifier: BSD-3-Clause
#include "costs.h"
#include <cstdlib>

bool costs::set(const std::string &text)
{
    const struct {
        const char *name;
        double *value;
    } all[]           = {{"query", &query}, {"export", &export_},
                         {"reg", &reg},     {"reg_byte", &reg_byte},
                         {"pin", &pin},     {"pin_byte", &pin_byte},
                         {"dereg", &dereg}};
    const size_t sign = text.find('=');
    for (const auto &one : all) {
        char *end = nullptr;
        if (sign != std::string::npos && text.substr(0, sign) == one.name) {
            *one.value = strtod(text.c_str() + sign + 1, &end);
            return *end == '\0' && end != text.c_str() + sign + 1 &&
                   *one.value >= 0;
        }
    }
    return false;
}
