// SPDX-License-Identifier: BSD-3-Clause
#include "libraries.h"
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <string>
#include <unistd.h>

void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    _exit(2);
}

void load_libraries(size_t count)
{
    namespace fs       = std::filesystem;
    std::string folder = (fs::temp_directory_path() / "bench.XXXXXX").string();
    void *small        = dlopen("libdl.so.2", RTLD_NOW);
    link_map *file     = nullptr;
    if (mkdtemp(folder.data()) == nullptr || small == nullptr ||
        dlinfo(small, RTLD_DI_LINKMAP, &file) != 0) {
        fail("no libraries");
    }
    for (size_t i = 0; i < count; ++i) {
        const std::string copy = folder + "/" + std::to_string(i) + ".so";
        fs::copy_file(file->l_name, copy);
        if (dlopen(copy.c_str(), RTLD_NOW) == nullptr) {
            fail(dlerror());
        }
    }
    fs::remove_all(folder);
}
