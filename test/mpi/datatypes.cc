// SPDX-License-Identifier: BSD-3-Clause
//
// Derived datatypes, with holes and without: for an MPI that is built with
// CUDA, which packs GPU memory.
#include "compared.h"
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t room = 1 << 20; // bytes of each buffer: more than a type spans

struct made_type {
    const char *name;
    bool holes;
    MPI_Datatype (*make)();
    int count; // elements of a large message
};

MPI_Datatype vector_of(int blocks, int length, int stride)
{
    MPI_Datatype type;

    MPI_Type_vector(blocks, length, stride, MPI_DOUBLE, &type);
    return type;
}

MPI_Datatype indexed()
{
    const int lengths[] = {3, 1, 10, 2};
    const int places[]  = {20, 0, 5, 31};
    MPI_Datatype type;

    MPI_Type_indexed(4, lengths, places, MPI_INT, &type);
    return type;
}

// As a compiler lays out {char; double; int[3]}, or packed.
MPI_Datatype structure(bool packed)
{
    const int lengths[]        = {1, 1, 3};
    const MPI_Aint aligned[]   = {0, 8, 16};
    const MPI_Aint unaligned[] = {0, 1, 9};
    const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Datatype inner, type;

    MPI_Type_create_struct(3, lengths, packed ? unaligned : aligned, types,
                           &inner);
    MPI_Type_create_resized(inner, 0, packed ? 21 : 32, &type);
    MPI_Type_free(&inner);
    return type;
}

const made_type types[] = {
    {"a vector without holes", false, [] { return vector_of(10, 7, 7); }, 300},
    {"a packed structure", false, [] { return structure(true); }, 9001},
    {"a vector", true, [] { return vector_of(10, 7, 12); }, 300},
    {"a column", true, [] { return vector_of(8000, 1, 13); }, 1},
    {"indexed blocks", true, indexed, 3000},
    {"a structure", true, [] { return structure(false); }, 9001},
};

int peer_of(const job &in)
{
    return in.rank ^ 1;
}

two_buffers with_room(two_buffers kinds)
{
    kinds.sent = kinds.received = room;
    return kinds;
}

// Sends the type to the same type, to its bytes, and its bytes to the type.
void exchange_type(job &in, const two_buffers &with, const made_type &one,
                   int count)
{
    MPI_Datatype type = one.make();
    int size          = 0;

    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    for (int way = 0; way < 3; ++way) {
        const bool from = way != 1, into = way != 2;
        const auto run = [&](uint8_t *send, uint8_t *receive) {
            MPI_Sendrecv(send, from ? count : count * size,
                         from ? type : MPI_BYTE, peer_of(in), way, receive,
                         into ? count : count * size, into ? type : MPI_BYTE,
                         peer_of(in), way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        };
        compare_with_host(in, with, run, !one.holes && count > 1);
    }
    MPI_Type_free(&type);
}

void run_types(job &in, bool holes, memory first, memory second)
{
    const two_buffers with = with_room(same_kinds(in, first, second));

    for (const made_type &one : types) {
        const std::string before = in.failure;
        if (one.holes == holes) {
            exchange_type(in, with, one, 1);
            exchange_type(in, with, one, one.count);
        }
        if (before.empty() && !in.failure.empty()) {
            in.failure = one.name + (": " + in.failure);
        }
    }
}

void run_without_holes(job &in, memory first, memory second)
{
    run_types(in, false, first, second);
}

void run_with_holes(job &in, memory first, memory second)
{
    run_types(in, true, first, second);
}

} // namespace

void add_datatypes(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device;
    const auto add = [cases](memory first, memory second) {
        const std::string kinds =
            std::string(": ") + name_of(first) + ", " + name_of(second);
        const auto push = [&](const char *name,
                              void (*run)(job &, memory, memory)) {
            cases->push_back({"datatypes", name + kinds, run, first, second,
                              staging::follows});
        };
        push("datatypes without holes", run_without_holes);
        push("datatypes with holes", run_with_holes);
    };

    add(device, device);
    add(host, device);
}

} // namespace ucx_ib_dmabuf::test
