// SPDX-License-Identifier: BSD-3-Clause
#include "exchange.h"
#include "pattern.h"
#include <mpi.h>

namespace ucx_ib_dmabuf::test {

void one_way(job &in, uint8_t *mine, memory kind, size_t length, int sender)
{
    const uint64_t number = in.next_number();
    const int count       = static_cast<int>(length);

    if (in.rank == sender) {
        put_message(kind, mine, length, number);
    }
    {
        job::copies counted(in, length);
        if (in.rank == sender) {
            MPI_Send(mine, count, MPI_BYTE, 1 - sender, in.tag, MPI_COMM_WORLD);
        } else {
            MPI_Recv(mine, count, MPI_BYTE, sender, in.tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
    in.expect_message(kind, mine, length, number);
}

void exchange_at(job &in, uint8_t *mine, memory kind, size_t length)
{
    one_way(in, mine, kind, length, 0);
    one_way(in, mine, kind, length, 1);
}

void bystanders::add(uint8_t *data, memory kind, size_t length)
{
    all_.push_back({data, kind, length, job_.next_number()});
    put_message(kind, data, length, all_.back().number);
}

void bystanders::expect_unchanged(const char *when) const
{
    for (const one &it : all_) {
        const size_t wrong =
            compare_message(it.kind, it.data, it.length, it.number);
        job_.expect(wrong == no_difference,
                    std::string(when) + ": memory beside the message changed");
    }
}

} // namespace ucx_ib_dmabuf::test
