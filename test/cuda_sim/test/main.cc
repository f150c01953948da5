// SPDX-License-Identifier: BSD-3-Clause
#include "gpu.h"

#include <cstdio>

namespace ucx_ib_dmabuf::test {

int run_alone(const std::string &settings, const std::string &name,
              std::string *output)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
    std::string command =
        "exec env " + settings + " '" + std::string(self, size_t(length)) +
        "' --gtest_also_run_disabled_tests --gtest_filter='" + name + "' 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    std::string text;
    char buffer[4096];
    while (size_t got = fread(buffer, 1, sizeof(buffer), pipe))
        text.append(buffer, got);
    if (output)
        *output = text;
    int status = pclose(pipe);
    if (status)
        printf("%s", text.c_str());
    return status;
}

} // namespace ucx_ib_dmabuf::test

int main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
