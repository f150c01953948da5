// SPDX-License-Identifier: BSD-3-Clause
//
// Groups of test cases on UCP's own API, in one process. Prints "ok - NAME" or
// "not ok - NAME: REASON" for each.
// usage: ucp_tests none|any SEED GROUP...
// The first argument says whether large puts and gets may be copied.
#include "peers.h"
#include <cstdio>
#include <string_view>

namespace ucx_ib_dmabuf::test {
namespace {

void run_case(job &in, const test_case &one)
{
    const std::string name = std::string(one.group) + ": " + one.name + ", " +
                             name_of(one.first) + " to " + name_of(one.second);
    try {
        one.run(in, one.first, one.second);
        printf("ok - %s\n", name.c_str());
    } catch (const std::exception &failure) {
        printf("not ok - %s: %s\n", name.c_str(), failure.what());
    }
    fflush(stdout);
}

int main(std::span<char *> arguments)
{
    if (arguments.size() < 4) {
        fprintf(stderr, "usage: ucp_tests none|any SEED GROUP...\n");
        return 2;
    }
    gpu::use(); // before UCX checks which memory it can register
    job in;
    in.may_copy = std::string_view(arguments[1]) == "any";
    in.random.seed(std::stoull(arguments[2]));

    for (const std::string_view group : arguments.subspan(3)) {
        for (const auto &cases : {one_sided_cases(), revoked_cases()}) {
            for (const test_case &one : cases) {
                if (group == one.group) {
                    run_case(in, one);
                }
            }
        }
    }
    printf("ok - it came to its end\n");
    return 0;
}

} // namespace
} // namespace ucx_ib_dmabuf::test

int main(int argc, char **argv)
{
    try {
        return ucx_ib_dmabuf::test::main(
            std::span(argv, static_cast<size_t>(argc)));
    } catch (const std::exception &failure) {
        fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
