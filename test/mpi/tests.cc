// SPDX-License-Identifier: BSD-3-Clause
//
// Runs groups of test cases in an MPI job; rank 0 prints a line "ok - NAME" or
// "not ok - NAME: REASON" for each. Exits with 0 if it ran to the end.
// usage: mpi_tests none|some|any SEED GROUP...
// The first argument says how many bytes of large messages of device memory UCX
// may copy: none (the plug-in registers them), some (UCX must have copied), or
// any number.
#include "job.h"
#include <algorithm>
#include <chrono>
#include <common/fds.h>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <string_view>
#include <thread>

namespace ucx_ib_dmabuf::test {

case_list::case_list()
{
    add_messages(*this);
    add_edges(*this);
    add_lifetime(*this);
    add_reuse(*this);
    add_storm(*this);
    add_collectives(*this);
    add_datatypes(*this);
    add_windows(*this);
    add_demo(*this);
}

void case_list::add(const std::string &group, const std::string &name,
                    const case_function &run, memory first, memory second,
                    staging expected)
{
    all_.push_back({group,
                    name + ", " + name_of(first) + " and " + name_of(second),
                    run, first, second, expected});
}

void case_list::add(const std::string &group, const std::string &name,
                    const case_function &run, memory kind, staging expected)
{
    all_.push_back(
        {group, name + ", " + name_of(kind), run, kind, kind, expected});
}

namespace {

// Returns the number of open files, without the memory of simulated GPUs.
int count_files()
{
    return count_fds() - count_fds("/memfd:cuda_sim");
}

// Returns, in rank 0, the first failure of the lowest rank that has one.
std::string first_failure(const job &of)
{
    char text[256] = {};
    std::vector<char> all(sizeof(text) * static_cast<size_t>(of.size));

    std::snprintf(text, sizeof(text), "%s", of.failure.c_str());
    MPI_Gather(text, sizeof(text), MPI_CHAR, all.data(), sizeof(text), MPI_CHAR,
               0, MPI_COMM_WORLD);
    for (int i = 0; of.rank == 0 && i < of.size; ++i) {
        const char *one = &all[sizeof(text) * static_cast<size_t>(i)];
        if (one[0] != '\0') {
            return "rank " + std::to_string(i) + ": " + one;
        }
    }
    return {};
}

std::string judge_staging(std::string_view allowed, staging expected,
                          uint64_t staged)
{
    if (expected == staging::any || allowed == "any") {
        return {};
    }
    if (expected == staging::never || allowed == "none") {
        return staged == 0 ? std::string()
                           : std::to_string(staged) + " bytes were staged";
    }
    return staged > 0 ? std::string() : "no bytes were staged";
}

void print_result(const job &in, const std::string &name,
                  const std::string &reason)
{
    if (in.rank == 0) {
        std::printf("%s - %s%s%s\n", reason.empty() ? "ok" : "not ok",
                    name.c_str(), reason.empty() ? "" : ": ", reason.c_str());
        std::fflush(stdout);
    }
}

// Returns whether no export is open. The plug-in's thread may just be
// registering new memory ahead, which takes a moment.
bool closes_exports()
{
    constexpr int attempts = 3000;

    for (int i = 0; i < attempts; ++i) {
        if (count_fds("/dmabuf:") == 0) {
            return true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

void run_case(job &in, const test_case &one, std::string_view allowed)
{
    uint64_t staged = 0;

    in.failure.clear();
    in.staged   = 0;
    in.blocking = (one.first == memory::host || one.second == memory::host)
                      ? rendezvous_of_host
                      : rendezvous;
    MPI_Barrier(MPI_COMM_WORLD);
    one.run(in, one.first, one.second);
    in.expect(closes_exports(), "an fd of a dma-buf is left open");

    MPI_Reduce(&in.staged, &staged, 1, MPI_UINT64_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    std::string reason = first_failure(in);
    if (reason.empty()) {
        reason = judge_staging(allowed, one.expected, staged);
    }
    print_result(in, one.name, reason);
}

using group_list = std::span<const char *const>;

// Returns the bytes that were staged in this rank.
uint64_t run_groups(job &in, std::string_view allowed, group_list groups)
{
    const case_list cases;
    uint64_t staged = 0;

    for (const char *group : groups) {
        bool is_known = false;
        for (const test_case &one : cases.all()) {
            if (one.group == group) {
                is_known = true;
                run_case(in, one, allowed);
                staged += in.staged;
            }
        }
        if (!is_known) {
            std::fprintf(stderr, "no group of tests is named %s\n", group);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    return staged;
}

// Makes UCX open what it opens on first use: connections to all ranks, streams,
// caches. Open MPI opens files for windows with the first window; groups of
// windows have a "-" in their names. So the numbers of open files are
// comparable.
void warm_up(job &in, group_list groups)
{
    for (memory kind : {memory::host, memory::device}) {
        if (is_device(kind) && gpu::count() == 0) {
            continue;
        }
        buffer data(kind, 1 << 20);
        for (size_t length : {size_t{8}, data.size()}) {
            for (int root = 0; root < in.size; ++root) {
                MPI_Bcast(data.at(), static_cast<int>(length), MPI_BYTE, root,
                          MPI_COMM_WORLD);
            }
        }
    }
    if (std::ranges::any_of(groups, [](std::string_view group) {
            return group.find('-') != group.npos;
        })) {
        void *data = nullptr;
        MPI_Win window;
        MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &data, &window);
        MPI_Win_free(&window);
    }
}

// Appends a line of JSON, as UCX_IB_DMABUF_STATS and CUDA_SIM_STATS do.
void write_counters(const job &in, uint64_t staged)
{
    const char *name = std::getenv("MPI_TESTS_STATS");
    FILE *file       = name ? std::fopen(name, "a") : nullptr;

    if (file) {
        std::fprintf(file,
                     "{\"messages\": %lu, \"bytes\": %lu, \"wrong\": %lu, "
                     "\"staged\": %lu}\n",
                     static_cast<unsigned long>(in.checked.messages),
                     static_cast<unsigned long>(in.checked.bytes),
                     static_cast<unsigned long>(in.checked.wrong),
                     static_cast<unsigned long>(staged));
        std::fclose(file);
    }
}

// MPI_TESTS_GPU_FIRST=ORDINAL, or "all", creates contexts on these GPUs before
// MPI is initialised, as programs do that begin with CUDA. By default MPI is
// first.
void use_gpus_first(int gpus)
{
    const char *which = std::getenv("MPI_TESTS_GPU_FIRST");

    if ((which == nullptr) || (gpus == 0)) {
        return;
    }
    if (which != std::string_view("all")) {
        gpu::use(std::atoi(which));
        return;
    }
    for (int i = gpus; i-- > 0;) {
        gpu::use(i);
    }
}

// Keeps the pages of freed host buffers, as the lab's kernel makes pages
// slowly.
void keep_freed_memory()
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

// Calls MPI_Finalize(), except in MPICH. There a rank may destroy its queue
// pairs while another rank still flushes messages to them; over soft-RoCE that
// rank waits for ever (docs/guide.md). Ranks of MPICH exit without it, which
// Hydra accepts as success.
void finalize()
{
#ifdef MPICH_VERSION
    MPI_Barrier(MPI_COMM_WORLD);
#else
    MPI_Finalize();
#endif
}

int main(int argc, char **argv)
{
    keep_freed_memory();
    const int gpus = gpu::count(); // opens libcuda before UCX looks for it
    use_gpus_first(gpus);
    if (argc < 4) {
        std::fprintf(stderr, "usage: mpi_tests none|some|any SEED GROUP...\n");
        return 2;
    }
    const group_list groups(argv + 3, static_cast<size_t>(argc) - 3);
    // Asks for threads only if threads send: other groups run as most programs
    // do.
    const int wanted = (std::ranges::count(groups, std::string_view("threads")))
                           ? MPI_THREAD_MULTIPLE
                           : MPI_THREAD_SINGLE;
    int level        = wanted;
    job in;

    MPI_Init_thread(&argc, &argv, wanted, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &in.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &in.size);
    in.random.seed(std::strtoull(argv[2], nullptr, 0));
    if (gpus > 0) {
        gpu::use(in.rank % gpus);
    }
    warm_up(in, groups);
    const int files       = count_files();
    const uint64_t staged = run_groups(in, argv[1], groups);

    write_counters(in, staged);
    in.failure.clear();
    in.expect(level >= wanted, "MPI has no MPI_THREAD_MULTIPLE");
    in.expect(count_files() <= files,
              std::to_string(count_files()) + " files are open, " +
                  std::to_string(files) + " were at the start");
    print_result(in, "no file is left open", first_failure(in));
    finalize();
    return 0;
}

} // namespace
} // namespace ucx_ib_dmabuf::test

int main(int argc, char **argv)
{
    return ucx_ib_dmabuf::test::main(argc, argv);
}
