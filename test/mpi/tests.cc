// SPDX-License-Identifier: BSD-3-Clause
//
// Runs groups of test cases in an MPI job; rank 0 prints a line "ok - NAME" or
// "not ok - NAME: REASON" for each. Exits with 0 if it ran to the end.
// usage: mpi_tests none|some|any SEED GROUP...
// The first argument says how many bytes of large messages of device memory UCX
// may copy: none (the plug-in registers them), some (UCX must have copied), or
// any number.
#include "finalize.h"
#include "job.h"
#include "pattern.h"
#include <common/fds.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <mpi.h>

namespace ucx_ib_dmabuf::test {

void job::expect(bool condition, const std::string &otherwise)
{
    if (!condition && failure.empty()) {
        failure = otherwise;
    }
}

void job::expect_message(memory kind, const uint8_t *data, size_t length,
                         uint64_t number)
{
    const size_t position = compare_message(kind, data, length, number);

    ++checked.messages;
    checked.bytes += length;
    checked.wrong += position != no_difference;
    expect(position == no_difference,
           "message " + std::to_string(number) + " of " +
               std::to_string(length) + " bytes, " + name_of(kind) +
               " memory: byte " + std::to_string(position) + " is wrong");
}

job job::for_thread(int thread)
{
    job one;

    one.rank    = rank;
    one.size    = size;
    one.tag     = tag + 1 + thread;
    one.number_ = static_cast<uint64_t>(1 + thread) << 32;
    one.random.seed(random());
    return one;
}

void job::join(const job &thread)
{
    expect(thread.failure.empty(), thread.failure);
    checked.messages += thread.checked.messages;
    checked.bytes += thread.checked.bytes;
    checked.wrong += thread.checked.wrong;
}

job::copies::copies(job &counted_for, size_t length)
    : job_(counted_for), large_(length >= rendezvous),
      before_(gpu::copied_bytes())
{
}

job::copies::~copies()
{
    if (large_) {
        job_.staged += gpu::copied_bytes() - before_;
    }
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

std::string judge_staging(const char *allowed, staging expected,
                          uint64_t staged)
{
    if (expected == staging::any || !std::strcmp(allowed, "any")) {
        return {};
    }
    if (expected == staging::never || !std::strcmp(allowed, "none")) {
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

void run_case(job &in, const test_case &one, const char *allowed)
{
    uint64_t staged = 0;

    in.failure.clear();
    in.staged = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    one.run(in, one.first, one.second);
    in.expect(count_fds("/dmabuf:") == 0, "an fd of a dma-buf is left open");

    MPI_Reduce(&in.staged, &staged, 1, MPI_UINT64_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    std::string reason = first_failure(in);
    if (reason.empty()) {
        reason = judge_staging(allowed, one.expected, staged);
    }
    print_result(in, one.name, reason);
}

// Makes UCX open what it opens on first use: connections to all ranks, streams,
// caches. So the numbers of open files are comparable.
void warm_up(job &in)
{
    std::vector<memory> kinds = {memory::host};

    if (gpu::count() > 0) {
        kinds.push_back(memory::device);
    }
    for (memory kind : kinds) {
        buffer data(kind, 1 << 20);
        for (size_t length : {size_t{8}, data.size()}) {
            for (int root = 0; root < in.size; ++root) {
                MPI_Bcast(data.at(), static_cast<int>(length), MPI_BYTE, root,
                          MPI_COMM_WORLD);
            }
        }
    }
}

// Returns the bytes that were staged in this rank.
uint64_t run_groups(job &in, int argc, char **argv)
{
    uint64_t staged = 0;
    std::vector<test_case> cases;

    add_messages(&cases);
    add_patterns(&cases);
    add_collectives(&cases);
    add_reuse(&cases);
    add_devices(&cases);
    add_edges(&cases);
    add_lifetime(&cases);
    add_pinned(&cases);
    add_storm(&cases);
    add_datatypes(&cases);
    add_allocators(&cases);
    add_windows(&cases);
    for (int i = 3; i < argc; ++i) {
        bool is_known = false;
        for (const test_case &one : cases) {
            if (one.group == argv[i]) {
                is_known = true;
                run_case(in, one, argv[1]);
                staged += in.staged;
            }
        }
        if (!is_known) {
            std::fprintf(stderr, "no group of tests is named %s\n", argv[i]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    return staged;
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

// Asks for threads only if threads send: other groups run as most programs do.
int thread_level(int argc, char **argv)
{
    for (int i = 3; i < argc; ++i) {
        if (!std::strcmp(argv[i], "threads")) {
            return MPI_THREAD_MULTIPLE;
        }
    }
    return MPI_THREAD_SINGLE;
}

// Open MPI opens files for windows with the first window. The groups of windows
// have a "-" in their names.
void warm_up_windows(int argc, char **argv)
{
    bool wanted = false;
    void *data  = nullptr;
    MPI_Win window;

    for (int i = 3; i < argc; ++i) {
        wanted |= std::strchr(argv[i], '-') != nullptr;
    }
    if (wanted) {
        MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &data, &window);
        MPI_Win_free(&window);
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
    if (std::strcmp(which, "all") != 0) {
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

int main(int argc, char **argv)
{
    keep_freed_memory();
    job in;
    int level = thread_level(argc, argv);

    const int gpus = gpu::count(); // opens libcuda before UCX looks for it
    use_gpus_first(gpus);
    MPI_Init_thread(&argc, &argv, level, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &in.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &in.size);
    if (argc < 4) {
        std::fprintf(stderr, "usage: mpi_tests none|some|any SEED GROUP...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    in.random.seed(std::strtoull(argv[2], nullptr, 0));
    if (gpus > 0) {
        gpu::use(in.rank % gpus);
    }
    warm_up(in);
    warm_up_windows(argc, argv);
    const int files       = count_files();
    const uint64_t staged = run_groups(in, argc, argv);

    write_counters(in, staged);
    in.failure.clear();
    in.expect(level == MPI_THREAD_MULTIPLE ||
                  thread_level(argc, argv) != MPI_THREAD_MULTIPLE,
              "MPI has no MPI_THREAD_MULTIPLE");
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
