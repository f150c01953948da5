// SPDX-License-Identifier: BSD-3-Clause
#include "ucx_probe.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sstream>
#include <sys/wait.h>
#include <ucm/cuda_events.h>
#include <uct/ib_dmabuf/cuda_copy/component.h>
#include <uct/ib_dmabuf/cuda_copy/cuda_copy.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>
#include <uct/ib_dmabuf/ucx/versions.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

constexpr unsigned patience = 20; // seconds, as some file systems are slow
constexpr int lines         = 6;  // in an answer

ucx_answer look(const std::string &libucp, const std::string &libuct_ib,
                const std::string &libuct_cuda)
{
    ucx_answer result;
    const char *missing = nullptr;

    for (const std::string *each : {&libucp, &libuct_ib}) {
        if (dlopen(each->c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
            result.error = dlerror();
            return result;
        }
    }
    if (!libuct_cuda.empty() &&
        (dlopen(libuct_cuda.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr)) {
        result.no_cuda = dlerror();
    }
    library uct_ib(libuct_ib.c_str());
    result.version = version_of(uct_ib);
    if (is_too_old(uct_ib)) {
        result.missing = too_old;
        return result;
    }
    auto *component =
        static_cast<uct_component_t *>(uct_ib.symbol("uct_ib_component"));
    if (component == nullptr) {
        result.missing = "uct_ib_component";
        return result;
    }
    auto *found =
        ucx_instance::look_up(std::move(uct_ib), component, &missing).release();
    if (found == nullptr) {
        result.missing = missing;
        return result;
    }
    found->set_has_cuda(has_cuda_module(found->uct_ib()));
    if (!found->ucm().has_cuda && ((missing = cuda_copy_component::missing(
                                        found->uct_ib())) != nullptr)) {
        result.uncopied = missing;
    }
    add_ucm(found->ucm()); // refers to `found`, which is never freed
    if (cuda_events_install() == UCS_OK) {
        result.unseen = cuda_events_missing();
    }
    return result;
}

// Discards UCX's output. The new group lets the parent kill its children, too.
[[noreturn]] void be_child(int to, const std::string &libucp,
                           const std::string &libuct_ib,
                           const std::string &libuct_cuda)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    alarm(2 * patience); // should the parent no longer wait
    const ucx_answer found = look(libucp, libuct_ib, libuct_cuda);
    const std::string text = found.version + "\n" + found.missing + "\n" +
                             found.error + "\n" + found.unseen + "\n" +
                             found.uncopied + "\n" + found.no_cuda + "\n";
    const bool written = write(to, text.data(), text.size()) > 0;
    _exit(written ? 0 : 1);
}

// Reads the child's lines. The child may hang and ignore its alarm, or leave a
// process that holds the pipe. Sets *late if it exceeds its time.
std::string read_lines(int from, bool *late)
{
    using std::chrono::milliseconds, std::chrono::steady_clock;
    const auto end = steady_clock::now() + std::chrono::seconds(patience);
    pollfd wait{from, POLLIN, 0};
    std::string text;
    char bytes[512];

    while (std::ranges::count(text, '\n') < lines) {
        const auto left =
            duration_cast<milliseconds>(end - steady_clock::now()).count();
        const int ready =
            poll(&wait, 1, static_cast<int>(std::max<int64_t>(left, 0)));
        const ssize_t length =
            (ready > 0) ? read(from, bytes, sizeof(bytes)) : ready;
        if (length > 0) {
            text.append(bytes, static_cast<size_t>(length));
        } else if ((ready == 0) || (length == 0) || (errno != EINTR)) {
            *late = ready == 0;
            break;
        }
    }
    return text;
}

} // namespace

ucx_answer probe_ucx(const std::string &libucp, const std::string &libuct_ib,
                     const std::string &libuct_cuda)
{
    ucx_answer result;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        result.error = "no pipe: too many files are open";
        return result;
    }
    const pid_t child = fork();
    if (child == 0) {
        be_child(ends[1], libucp, libuct_ib, libuct_cuda);
    }
    close(ends[1]);
    bool late              = false;
    const std::string text = (child < 0) ? "" : read_lines(ends[0], &late);
    close(ends[0]);
    if (child > 0) {
        kill(-child, SIGKILL);
        kill(child, SIGKILL); // it may be in another group
        waitpid(child, nullptr, 0);
    }
    if (text.empty()) {
        result.error = late ? "it did not load in " + std::to_string(patience) +
                                  " seconds: it hangs, or its file system is "
                                  "very slow"
                            : "it ends the process that loads it";
        return result;
    }
    std::istringstream answer(text);
    for (std::string *each :
         {&result.version, &result.missing, &result.error, &result.unseen,
          &result.uncopied, &result.no_cuda}) {
        std::getline(answer, *each);
    }
    return result;
}

} // namespace ucx_ib_dmabuf::info
