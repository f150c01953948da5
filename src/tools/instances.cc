// SPDX-License-Identifier: BSD-3-Clause
//
// Checks each UCX that a program would load, or that a folder contains: the
// system's, an MPI's, a wheel's. A UCX is a libucp with its modules beside it.
#include "report.h"
#include <dlfcn.h>
#include <filesystem>
#include <sstream>
#include <sys/auxv.h>
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

// Adds the file that a link leads to, once.
void add(const fs::path &found, paths *to)
{
    std::error_code error;
    const fs::path real = fs::canonical(found, error);

    if (!error && (std::ranges::find(*to, real) == to->end())) {
        to->push_back(real);
    }
}

// Finds files of that name below a folder.
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
    paths found;

    for (const std::string &folder : {beside + "/ucx/", beside + "/"}) {
        for (const std::string &file : tree().list(folder)) {
            if (is_library(file, name)) {
                add(folder + file, &found);
            }
        }
    }
    return found.empty() ? "" : found.front();
}

// Finds libraries of that name among those of a program or library, as the
// dynamic linker lists them, which runs none of their code.
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

// Searches PATH, as a shell does for a word without a folder.
std::string in_path(const std::string &word)
{
    for (const fs::path each : split(variable("PATH"), ":")) {
        std::string file = each / word;
        if (access(file.c_str(), X_OK) == 0) {
            return file;
        }
    }
    return word;
}

part check_instance(const fs::path &libucp)
{
    const std::string ib = find_module(libucp, "libuct_ib");
    part made{"UCX " + libucp.native()};

    if (ib.empty()) {
        made.add(fails, "InfiniBand", "no libuct_ib",
                 "this UCX was built without verbs, or that part of it is not "
                 "installed: it knows no RDMA NIC",
                 "install that part (in Fedora ucx-ib), or use a UCX that is "
                 "built --with-verbs");
    } else {
        made.add(ok, "InfiniBand", ib);
        probe_ucx(libucp, ib, find_module(libucp, "libuct_cuda"), &made);
    }
    return made;
}

void explain_none(const fs::path &path, part *out)
{
    constexpr char remedy[] =
        "name the program that a script starts, or the folder that the UCX is "
        "in, of a virtual environment, say, or of an MPI";
    std::error_code error;

    out->diagnose(
        "found", "none",
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

void check_instances(const std::string &named, report *out)
{
    std::error_code error;
    paths found;
    const std::string path = fs::exists(named, error) ? named : in_path(named);
    part all{"UCX of " + path};

    if (fs::is_directory(path, error)) {
        find_below(path, "libucp", &found);
    } else if (fs::is_regular_file(path, error)) { // a pipe would block
        found = find_for_program(path);
    }
    for (const fs::path &each : found) {
        out->instances.push_back(check_instance(each));
    }
    if (found.empty()) {
        explain_none(path, &all);
    } else if (found.size() > 1) {
        all.add(warning, "copies", std::to_string(found.size()),
                "they do not know each other's registrations and hooks, and a "
                "process that opens two RTLD_GLOBAL aborts",
                "let all libraries of a process use the same UCX");
    }
    if (found.size() != 1) {
        out->instances.push_back(all);
    }
}

} // namespace ucx_ib_dmabuf::info
