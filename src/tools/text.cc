// SPDX-License-Identifier: BSD-3-Clause
#include "look.h"
#include <algorithm>

namespace ucx_ib_dmabuf::info {
namespace {

// File names may contain any bytes. A terminal interprets some, also U+0080 to
// U+009F, which begin with this byte in UTF-8.
std::string harmless(std::string text)
{
    constexpr char before_orders = '\xc2';

    for (size_t i = 0; i < text.size(); ++i) {
        if (((text[i] & ~0x1f) == 0) || (text[i] == 0x7f)) {
            text[i] = '?';
        } else if ((i > 0) && (text[i - 1] == before_orders) &&
                   ((text[i] & 0x60) == 0)) {
            text[i - 1] = text[i] = '?';
        }
    }
    return text;
}

class printer {
public:
    printer(bool coloured, int width, FILE *to)
        : coloured_(coloured), width_(width), to_(to)
    {
    }

    void print(const part &one)
    {
        if (one.checks.empty()) {
            return;
        }
        fprintf(to_, "%s\n", harmless(one.name).c_str());
        for (const check &each : one.checks) {
            fprintf(to_, "  %-20s  ", each.name.c_str());
            print(each.how, name_of(each.how), 7);
            fprintf(to_, "  %s\n", harmless(each.found).c_str());
            print("cause", each.cause);
            print("remedy", each.remedy);
        }
        fputs("\n", to_);
    }

    // Each cell has distance and state.
    void print_matrix(const report &all)
    {
        size_t width = sizeof("SYS warning");

        for (const part &nic : all.nics) {
            width = std::max(width, nic.name.size() + 1);
        }
        fprintf(to_, "%-8s", "");
        for (const part &nic : all.nics) {
            fprintf(to_, "  %-*s", static_cast<int>(width),
                    harmless(nic.name).c_str());
        }
        for (const pair &each : all.pairs) {
            if (each.nic == 0) {
                fprintf(to_, "\n%-8s", all.gpus[each.gpu].name.c_str());
            }
            fputs("  ", to_);
            print(each.how, each.distance + " " + name_of(each.how),
                  static_cast<int>(width));
        }
        fputs("\n", to_);
    }

private:
    void print(state how, const std::string &word, int width)
    {
        constexpr const char *colours[] = {"\033[32m", "\033[33m", "\033[31m"};

        fprintf(to_, "%s%-*s%s",
                coloured_ ? colours[static_cast<unsigned>(how)] : "", width,
                word.c_str(), coloured_ ? "\033[0m" : "");
    }
    void print(const char *what, const std::string &text)
    {
        if (text.empty()) {
            return;
        }
        int column = fprintf(to_, "  %-20s  %s:", "", what);
        for (const std::string &word : split(harmless(text), " ")) {
            if (column + 1 + static_cast<int>(word.size()) > width_) {
                fputs("\n", to_);
                column = fprintf(to_, "  %-20s   ", "");
            }
            column += fprintf(to_, " %s", word.c_str());
        }
        fputs("\n", to_);
    }

    const bool coloured_;
    const int width_;
    FILE *const to_;
};

// Reports equal findings of several pairs once: on a machine with 8 GPUs and 8
// NICs most pairs are far apart. The matrix shows which.
std::vector<part> told_together(const std::vector<pair> &pairs)
{
    std::vector<part> result;
    std::vector<size_t> others;

    for (const pair &each : pairs) {
        // Two checks are about places; more were requested by --prove.
        if ((each.about.worst() == state::ok) &&
            (each.about.checks.size() <= 2)) {
            continue;
        }
        const auto same =
            std::ranges::find(result, each.about.checks, &part::checks);
        if (same != result.end()) {
            ++others[static_cast<size_t>(same - result.begin())];
        } else {
            result.push_back(each.about);
            others.push_back(0);
        }
    }
    for (size_t i = 0; i < result.size(); ++i) {
        if (others[i] > 0) {
            result[i].name +=
                " and " + std::to_string(others[i]) + " more of these";
        }
    }
    return result;
}

} // namespace

void print_text(const report &all, bool coloured, int width, FILE *to)
{
    printer out(coloured, width, to);

    out.print(all.machine);
    out.print(all.environment);
    for (const auto *group : {&all.gpus, &all.nics, &all.copies}) {
        for (const part &each : *group) {
            out.print(each);
        }
    }
    for (const part &each : told_together(all.pairs)) {
        out.print(each);
    }
    if (all.pairs.empty()) {
        fprintf(to, "No pair of a GPU and a NIC: %zu GPUs, %zu NICs.\n",
                all.gpus.size(), all.nics.size());
        if (all.no_gpu || all.no_nic) {
            fprintf(to, "ucx-ib-dmabuf cannot work here: %s%s%s.\n",
                    all.no_gpu ? "no NVIDIA GPU" : "",
                    (all.no_gpu && all.no_nic) ? ", " : "",
                    all.no_nic ? "no RDMA NIC" : "");
        }
    } else {
        out.print_matrix(all);
    }
}

} // namespace ucx_ib_dmabuf::info
