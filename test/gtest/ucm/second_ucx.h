// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "alone.h"
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {

/**
 * Another instance of UCM and its CUDA module, as in a Python package: with its
 * own files and sonames, and with symbols that are not global. The files are
 * copies of the UCX under test, removed once they are loaded.
 */
class SecondUcx {
public:
    SecondUcx()
    {
        char name[] = "/tmp/second_ucx.XXXXXX";
        EXPECT_NE(mkdtemp(name), nullptr);
        folder_               = name;
        const std::string lib = variable("UCX_PREFIX") + "/lib/";
        copy(lib + "libucm.so.0", "libucm-second.so.0");
        copy(lib + "ucx/libucm_cuda.so.0", "libucm_cuda-second.so.0");
        ucm     = open("libucm-second.so.0");
        modules = open("libucm_cuda-second.so.0");
        std::filesystem::remove_all(folder_);
    }

    /** Returns its UCM as the hooks use it, valid for good. */
    const ucm_functions &functions() const
    {
        static ucm_functions of = *all_ucm().front();
        find("ucm_event_dispatch", &of.event_dispatch);
        find("ucm_event_enter", &of.event_enter);
        find("ucm_event_leave", &of.event_leave);
        find("ucm_set_event_handler", &of.set_event_handler);
        return of;
    }

    /** Returns whether an address lies in its hooks. */
    bool has(const void *address) const
    {
        Dl_info info;
        return (address != nullptr) && (dladdr(address, &info) != 0) &&
               (std::string(info.dli_fname).find("libucm_cuda-second") !=
                std::string::npos);
    }

    void *ucm, *modules;

private:
    template <class Function>
    void find(const char *name, Function **found) const
    {
        *found = function_of<Function>(ucm, name);
    }

    // Replaces a name in place by one of the same length.
    static void rename(std::string &bytes, const std::string &from,
                       const std::string &to)
    {
        for (size_t at = 0; (at = bytes.find(from, at)) != std::string::npos;) {
            bytes.replace(at, from.size(), to);
        }
    }

    void copy(const std::string &from, const std::string &to) const
    {
        std::ifstream in(from, std::ios::binary);
        std::string bytes{std::istreambuf_iterator<char>(in), {}};
        EXPECT_FALSE(bytes.empty());
        rename(bytes, "libucm", "libXcm"); // also the names in a wheel
        std::ofstream(folder_ + "/" + to, std::ios::binary) << bytes;
    }

    // DEEPBIND binds to its own UCM, not to the program's.
    void *open(const char *name) const
    {
        void *library = dlopen((folder_ + "/" + name).c_str(),
                               RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
        if (library == nullptr) {
            throw std::runtime_error(dlerror());
        }
        return library;
    }

    std::string folder_;
};

} // namespace ucx_ib_dmabuf::test
