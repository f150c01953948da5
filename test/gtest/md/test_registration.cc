// SPDX-License-Identifier: BSD-3-Clause
//
// What a registration costs beside the driver, verbs and UCX: no call of the
// dynamic loader, which takes longer the more libraries a process has.
#include "fake_domain.h"
#include <common/gpu.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <optional>
#include <uct/ib_dmabuf/cache/exports.h>
#include <uct/ib_dmabuf/cuda/vendor.h>
#include <uct/ib_dmabuf/host/host.h>
#include <uct/ib_dmabuf/md/nic.h>
#include <uct/ib_dmabuf/md/settings.h>

using namespace ucx_ib_dmabuf;

namespace {

unsigned loader_calls = 0;

// As uct_ib opened it.
std::optional<original_domain> opened;

std::unique_ptr<domain> keep(const original_domain &original)
{
    opened.emplace(original);
    return nullptr; // it is left as it is
}

} // namespace

// The linker (--wrap) has our code come here.
// NOLINTBEGIN(*-reserved-identifier,readability-identifier-naming)
extern "C" {

decltype(dl_iterate_phdr) __real_dl_iterate_phdr;
decltype(dlopen) __real_dlopen;
decltype(dlsym) __real_dlsym;
decltype(dlclose) __real_dlclose;

int __wrap_dl_iterate_phdr(int (*each)(dl_phdr_info *, size_t, void *),
                           void *arg)
{
    ++loader_calls;
    return __real_dl_iterate_phdr(each, arg);
}

void *__wrap_dlopen(const char *name, int how) noexcept
{
    ++loader_calls;
    return __real_dlopen(name, how);
}

void *__wrap_dlsym(void *library, const char *name) noexcept
{
    ++loader_calls;
    return __real_dlsym(library, name);
}

int __wrap_dlclose(void *library) noexcept
{
    ++loader_calls;
    return __real_dlclose(library);
}
}
// NOLINTEND(*-reserved-identifier,readability-identifier-naming)

namespace {

TEST(test_registration, does_not_call_the_loader)
{
    constexpr int count   = 100;
    constexpr size_t size = 1 << 20;

    gpu::use();
    serve_new_copies({[](host &copy) {
                          set_settings(copy.parser());
                          return true;
                      },
                      keep});
    uct_md_h md = fake_domain::open("fake0");
    ASSERT_TRUE(opened);
    const auto gpus = find_cuda();
    ASSERT_TRUE(gpus);
    const gpu::buffer memory(size);
    proofs proven;
    nic device(*opened, *gpus, &proven);

    EXPECT_NE(0u, loader_calls) << "they are counted";
    loader_calls = 0;
    for (int i = 0; i < count; ++i) {
        exports source(*gpus, memory.address(), size);
        void *handle = nullptr;
        ASSERT_EQ(UCS_OK,
                  device.reg(source, 0, memory.address(), size, &handle));
        device.dereg(handle);
    }
    EXPECT_EQ(0u, loader_calls);
    fake_domain::close(md);
}

} // namespace
