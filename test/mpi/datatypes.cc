// SPDX-License-Identifier: BSD-3-Clause
//
// Derived datatypes, with holes and without: for an MPI that is built with
// CUDA, which packs GPU memory.
#include "job.h"

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

const made_type types[] = {
    {"a vector without holes", false, [] { return vector_of(10, 7, 7); }, 500},
    {"a vector", true, [] { return vector_of(10, 7, 12); }, 300},
    {"a column", true, [] { return vector_of(8000, 1, 13); }, 1},
    {"indexed blocks", true, indexed, 3000},
};

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
                         from ? type : MPI_BYTE, in.peer(), way, receive,
                         into ? count : count * size, into ? type : MPI_BYTE,
                         in.peer(), way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        };
        const size_t bytes =
            static_cast<size_t>(count) * static_cast<size_t>(size);
        compare_with_host(in, with, run, !one.holes && bytes >= in.blocking);
    }
    MPI_Type_free(&type);
}

case_function types_with(bool holes)
{
    return [=](job &in, memory first, memory second) {
        const memory mine = in.mine_of(first, second);

        for (const made_type &one : types) {
            if (one.holes == holes) {
                in.run_part(one.name, [&] {
                    exchange_type(in, {mine, mine, room, room}, one, 1);
                    exchange_type(in, {mine, mine, room, room}, one, one.count);
                });
            }
        }
    };
}

} // namespace

void add_datatypes(case_list &cases)
{
    for (memory first : {memory::device, memory::host}) {
        cases.add("datatypes", "datatypes without holes", types_with(false),
                  first, memory::device);
        cases.add("datatypes", "datatypes with holes", types_with(true), first,
                  memory::device);
    }
}

} // namespace ucx_ib_dmabuf::test
