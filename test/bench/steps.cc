// SPDX-License-Identifier: BSD-3-Clause
#include "steps.h"
#include <csignal>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <map>
#include <sched.h>
#include <set>
#include <stdexcept>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

namespace {

enum class part {
    plugin,
    support, // for its caller: libc, UCX's hooks before it, made code
    other,
};

part part_of(const std::string &path)
{
    const std::string name = path.substr(path.rfind('/') + 1);
    if (name.find("ib_dmabuf") != name.npos) {
        return part::plugin;
    }
    for (const char *start : {"libc.", "libstdc++", "libgcc_s", "libm.",
                              "libpthread", "ld-", "libucm"}) {
        if (name.starts_with(start)) {
            return part::support;
        }
    }
    return (name.empty() || name.starts_with('[')) ? part::support
                                                   : part::other;
}

// The instruction at an address of the child process.
struct place {
    part in;
    bool calls_system, enters_loader;
};

class child_code {
public:
    explicit child_code(pid_t child) : child_(child)
    {
        for (const char *name :
             {"dlopen", "dlsym", "dlvsym", "dlclose", "dladdr", "dladdr1",
              "dlinfo", "dl_iterate_phdr"}) {
            loader_.insert(
                reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, name)));
        }
    }

    const place &next()
    {
        const uintptr_t at = pc();
        const auto found   = known_.find(at);
        return (found != known_.end())
                   ? found->second
                   : known_.emplace(at, look_at(at)).first->second;
    }

private:
    uintptr_t pc() const
    {
        user_regs_struct registers{};
        iovec all{&registers, sizeof(registers)};
        ptrace(PTRACE_GETREGSET, child_, NT_PRSTATUS, &all);
#if defined(__x86_64__)
        return registers.rip;
#else
        return registers.pc;
#endif
    }
    place look_at(uintptr_t at)
    {
        const auto word =
            static_cast<uint64_t>(ptrace(PTRACE_PEEKTEXT, child_, at, nullptr));
#if defined(__x86_64__)
        const bool calls_system = (word & 0xffff) == 0x050f; // syscall
#else
        const bool calls_system = (word & 0xffffffff) == 0xd4000001; // svc
#endif
        return {part_at(at), calls_system, loader_.contains(at)};
    }
    part part_at(uintptr_t at)
    {
        for (bool is_fresh : {false, true}) {
            const auto after = parts_.upper_bound(at);
            if (after != parts_.begin() && at < std::prev(after)->second.end) {
                return std::prev(after)->second.in;
            }
            if (!is_fresh) {
                read_parts();
            }
        }
        return part::support; // made code
    }
    // Executable mappings, which stay.
    void read_parts()
    {
        std::ifstream maps("/proc/" + std::to_string(child_) + "/maps");
        for (std::string line; std::getline(maps, line);) {
            char *rest            = nullptr;
            const uintptr_t begin = strtoull(line.c_str(), &rest, 16);
            const uintptr_t end   = strtoull(rest + 1, &rest, 16);
            if (rest[3] == 'x') {
                const size_t path = line.find_first_of("/[");
                parts_[begin]     = {
                        end, part_of(path == line.npos ? "" : line.substr(path))};
            }
        }
    }

    struct mapping {
        uintptr_t end;
        part in;
    };
    const pid_t child_;
    std::set<uintptr_t> loader_;
    std::map<uintptr_t, mapping> parts_; // by their first address
    std::unordered_map<uintptr_t, place> known_;
};

class counter {
public:
    explicit counter(pid_t child) : code_(child) {}

    void begin()
    {
        now_   = {};
        owner_ = part::other;
    }
    void step()
    {
        const place &next = code_.next();
        if (next.in != part::support) {
            owner_ = next.in;
        }
        const bool own = owner_ == part::plugin;
        ++now_.instructions;
        now_.own += own;
        now_.system_calls += own && next.calls_system;
        now_.loader_calls += own && next.enters_loader;
    }
    const steps &end() const { return now_; }

private:
    child_code code_;
    steps now_;
    part owner_ = part::other;
};

constexpr int begin_signal = SIGUSR1;
constexpr int end_signal   = SIGUSR2;

} // namespace

void count_begin()
{
    raise(begin_signal);
}

void count_end()
{
    raise(end_signal);
}

std::vector<steps> count_steps(const std::function<void()> &body)
{
    std::vector<steps> counts;
    bool counting = false;
    int status    = 0;

    // On one processor a step need not wake up another processor.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);

    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
            _exit(1);
        }
        body();
        _exit(0);
    }
    counter count(child);
    while ((waitpid(child, &status, 0) == child) && WIFSTOPPED(status)) {
        long signal = WSTOPSIG(status);
        switch (std::exchange(signal, 0)) {
        case begin_signal:
            counting = true;
            count.begin();
            break;
        case end_signal:
            counting = false;
            counts.push_back(count.end());
            break;
        case SIGTRAP:
            count.step();
            break;
        default:
            signal = WSTOPSIG(status);
        }
        ptrace(counting ? PTRACE_SINGLESTEP : PTRACE_CONT, child, nullptr,
               signal);
    }
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0)) {
        throw std::runtime_error("the child that is counted has failed");
    }
    return counts;
}
