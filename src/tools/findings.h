// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace ucx_ib_dmabuf::info {

// warning: it works, but slower or less reliably than it could.
enum class state : uint8_t { ok, warning, fails };

inline const char *name_of(state which)
{
    constexpr const char *names[] = {"ok", "warning", "fails"};
    return names[static_cast<unsigned>(which)];
}

// The result for a single property. Cause and remedy are empty if it is ok.
struct check {
    std::string name;
    state how = state::ok;
    std::string found;
    std::string cause{};
    std::string remedy{};

    bool operator==(const check &) const = default;
};

// A device's place; empty and -1 if unknown, as for a NIC in software.
struct pci_place {
    std::string path; // "/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    int numa = -1;
};

// The subject of checks: the machine, a GPU, a NIC, a UCX.
struct part {
    std::string name;
    std::vector<check> checks{};
    pci_place place{};

    void ok(const char *what, std::string found)
    {
        checks.push_back({what, state::ok, std::move(found)});
    }
    void warns(const char *what, std::string found, std::string cause,
               std::string remedy)
    {
        checks.push_back({what, state::warning, std::move(found),
                          std::move(cause), std::move(remedy)});
    }
    void fails(const char *what, std::string found, std::string cause,
               std::string remedy)
    {
        checks.push_back({what, state::fails, std::move(found),
                          std::move(cause), std::move(remedy)});
    }
    state worst() const
    {
        const auto most = std::ranges::max_element(checks, {}, &check::how);
        return (most == checks.end()) ? state::ok : most->how;
    }
};

// A GPU and a NIC, as indices into the report.
struct pair {
    size_t gpu, nic;
    std::string distance; // docs/info.md
    part about;
    state how; // also fails if the machine, the GPU or the NIC does
};

struct report {
    part machine{"machine"};
    part environment{"environment"}; // of programs started in it
    std::vector<part> gpus{}, nics{}, copies{};
    std::vector<pair> pairs{};
    // PCI has no such device, neither with a driver nor without.
    bool no_gpu = false, no_nic = false;

    // 0: every pair can work, with every UCX that was named; 1: a pair or a UCX
    // cannot; 3: there is no pair.
    int status() const
    {
        const auto fails = [](state how) { return how == state::fails; };
        const bool any   = std::ranges::any_of(pairs, fails, &pair::how) ||
                         std::ranges::any_of(copies, fails, &part::worst);
        return any ? 1 : pairs.empty() ? 3 : 0;
    }
};

} // namespace ucx_ib_dmabuf::info
