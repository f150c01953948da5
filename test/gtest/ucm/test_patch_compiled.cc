// SPDX-License-Identifier: BSD-3-Clause
//
// Every function of libraries that compilers made is patched. On aarch64
// another thread calls it meanwhile.
#include <array>
#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <link.h>
#include <string>
#include <thread>
#include <ucm/code_patch.h>
#include <ucm/machine_code.h>
#include <utility>
#include <vector>

#if defined(__x86_64__) || defined(__aarch64__)

namespace ucx_ib_dmabuf {
namespace {

// A function of the libraries: each has up to 8 arguments in words.
using word     = uint64_t;
using function = uint32_t(word, word, word, word, word, word, word, word);

constexpr size_t max_functions = 600;
struct {
    std::atomic<void *> original;
    std::atomic<long> calls;
} hooked[max_functions];

template <size_t index>
uint32_t hook(word a, word b, word c, word d, word e, word f, word g, word h)
{
    ++hooked[index].calls;
    return reinterpret_cast<function *>(hooked[index].original.load())(
        a, b, c, d, e, f, g, h);
}

constexpr auto hooks = []<size_t... index>(std::index_sequence<index...>)
{
    return std::array<function *, max_functions>{hook<index>...};
}
(std::make_index_sequence<max_functions>());

// The functions that a library exports.
std::vector<std::pair<std::string, void *>> functions_of(void *library)
{
    const link_map *map;
    const ElfW(Sym) *symbols = nullptr;
    const char *names        = nullptr;
    std::vector<std::pair<std::string, void *>> found;

    dlinfo(library, RTLD_DI_LINKMAP, &map);
    for (const ElfW(Dyn) *each = map->l_ld; each->d_tag != DT_NULL; ++each) {
        if (each->d_tag == DT_SYMTAB) {
            symbols = reinterpret_cast<const ElfW(Sym) *>(each->d_un.d_ptr);
        } else if (each->d_tag == DT_STRTAB) {
            names = reinterpret_cast<const char *>(each->d_un.d_ptr);
        }
    }
    // Linkers put the names behind the symbols.
    for (; reinterpret_cast<const char *>(symbols) < names; ++symbols) {
        if ((ELF64_ST_TYPE(symbols->st_info) == STT_FUNC) &&
            (symbols->st_shndx != SHN_UNDEF)) {
            const std::string name = names + symbols->st_name;
            found.emplace_back(name, dlsym(library, name.c_str()));
        }
    }
    return found;
}

uint32_t call(void *address)
{
    alignas(64) static thread_local char memory[4096];
    memset(memory, 0, sizeof(memory));
    const auto at = reinterpret_cast<word>(memory);
    return reinterpret_cast<function *>(address)(at, at, at, at, at, at, at,
                                                 at);
}

class PatchCompiled : public testing::TestWithParam<std::string> {};

TEST_P(PatchCompiled, EveryFunction)
{
    static size_t used = 0;
    void *const library =
        dlopen((COMPILED_LIBRARIES + GetParam()).c_str(), RTLD_NOW);
    ASSERT_NE(nullptr, library) << dlerror();
    const auto functions = functions_of(library);
    ASSERT_GT(functions.size(), 50U);
    ASSERT_LE(used + functions.size(), max_functions);

    // On x86-64 a thread must not stand between the instructions.
    constexpr bool is_called_meanwhile = ucm::near_jump_size == 4;
    std::atomic<void *> current{functions[0].second};
    std::atomic<long> calls{0};
    const std::jthread caller([&](const std::stop_token &stop) {
        while (is_called_meanwhile && !stop.stop_requested()) {
            call(current.load());
            ++calls;
        }
    });
    for (const auto &[name, address] : functions) {
        const uint32_t result = call(address);
        current               = address;
        for (const long seen = calls;
             is_called_meanwhile && (calls < seen + 3);) {
            std::this_thread::yield();
        }
        ASSERT_STREQ(nullptr,
                     ucm::patch_function(address,
                                         reinterpret_cast<void *>(hooks[used]),
                                         hooked[used].original))
            << name;
        EXPECT_EQ(result, call(address)) << name;
        EXPECT_EQ(reinterpret_cast<void *>(hooks[used]),
                  ucm::patched_target(address));
        EXPECT_GT(hooked[used].calls, 0) << name;
        ++used;
    }
}

std::vector<std::string> libraries()
{
    std::vector<std::string> all;
    for (const auto &file :
         std::filesystem::directory_iterator(COMPILED_LIBRARIES)) {
        if (file.path().extension() == ".so") {
            all.push_back(file.path().filename());
        }
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Libraries, PatchCompiled,
                         testing::ValuesIn(libraries()), [](const auto &test) {
                             return test.param.substr(0, test.param.find('.'));
                         });

} // namespace
} // namespace ucx_ib_dmabuf

#endif
