// SPDX-License-Identifier: BSD-3-Clause
#include "touches.h"
#include <cstddef>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr int tag = 7;

void receive(const arguments &with)
{
    MPI_Recv(with.to, with.count, MPI_INT, with.peer(), tag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
}

// Every second int: `count` of them lie in two parts.
class strided {
public:
    explicit strided(int count)
    {
        MPI_Type_vector(count, 1, 2, MPI_INT, &type_);
        MPI_Type_commit(&type_);
    }
    ~strided() { MPI_Type_free(&type_); }
    strided(const strided &)            = delete;
    strided &operator=(const strided &) = delete;

    operator MPI_Datatype() const { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// A send of the even ranks, in any of MPI's ways, and its receive.
template <class Send>
void exchange(const arguments &with, Send send)
{
    with.sends() ? send() : receive(with);
}

void send(const arguments &with)
{
    exchange(with, [&] {
        MPI_Send(with.from, with.count, MPI_INT, with.peer(), tag,
                 MPI_COMM_WORLD);
    });
}

void send_buffered(const arguments &with)
{
    exchange(with, [&] {
        int size = 0;
        MPI_Pack_size(with.count, MPI_INT, MPI_COMM_WORLD, &size);
        std::vector<char> attached(
            static_cast<size_t>(size + MPI_BSEND_OVERHEAD));
        MPI_Buffer_attach(attached.data(), static_cast<int>(attached.size()));
        MPI_Bsend(with.from, with.count, MPI_INT, with.peer(), tag,
                  MPI_COMM_WORLD);
        MPI_Buffer_detach(static_cast<void *>(attached.data()), &size);
    });
}

void send_synchronously(const arguments &with)
{
    exchange(with, [&] {
        MPI_Ssend(with.from, with.count, MPI_INT, with.peer(), tag,
                  MPI_COMM_WORLD);
    });
}

void send_and_receive_at_once(const arguments &with)
{
    MPI_Request requests[2];

    MPI_Irecv(with.to, with.count, MPI_INT, with.peer(), tag, MPI_COMM_WORLD,
              &requests[0]);
    MPI_Isend(with.from, with.count, MPI_INT, with.peer(), tag, MPI_COMM_WORLD,
              &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

void start(const arguments &with)
{
    MPI_Request requests[2];

    MPI_Recv_init(with.to, with.count, MPI_INT, with.peer(), tag,
                  MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(with.from, with.count, MPI_INT, with.peer(), tag,
                  MPI_COMM_WORLD, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

void receive_matched(const arguments &with)
{
    if (with.sends()) {
        MPI_Send(with.from, with.count, MPI_INT, with.peer(), tag,
                 MPI_COMM_WORLD);
        return;
    }
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Mprobe(with.peer(), tag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(with.to, with.count, MPI_INT, &message, MPI_STATUS_IGNORE);
}

void send_receive(const arguments &with)
{
    MPI_Sendrecv(with.from, with.count, MPI_INT, with.peer(), tag, with.to,
                 with.count, MPI_INT, with.peer(), tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

void send_receive_replace(const arguments &with)
{
    MPI_Sendrecv_replace(with.from, with.count, MPI_INT, with.peer(), tag,
                         with.peer(), tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void send_to_self(const arguments &with)
{
    MPI_Sendrecv(with.from, with.count, MPI_INT, with.rank, tag, with.to,
                 with.count, MPI_INT, with.rank, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

void send_strided(const arguments &with)
{
    const strided type(with.count);

    exchange(with, [&] {
        MPI_Send(with.from, 1, type, with.peer(), tag, MPI_COMM_WORLD);
    });
}

void receive_strided(const arguments &with)
{
    const strided type(with.count);

    if (with.sends()) {
        MPI_Send(with.from, with.count, MPI_INT, with.peer(), tag,
                 MPI_COMM_WORLD);
    } else {
        MPI_Recv(with.to, 1, type, with.peer(), tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
}

} // namespace

std::vector<mpi_operation> point_to_point()
{
    return {
        {"MPI_Send, MPI_Recv", send},
        {"MPI_Ssend", send_synchronously},
        {"MPI_Bsend", send_buffered},
        {"MPI_Isend, MPI_Irecv", send_and_receive_at_once},
        {"MPI_Send_init, MPI_Recv_init", start},
        {"MPI_Mrecv", receive_matched},
        {"MPI_Sendrecv", send_receive},
        {"MPI_Sendrecv_replace", send_receive_replace},
        {"MPI_Sendrecv with oneself", send_to_self},
        {"MPI_Send of a vector type", send_strided},
        {"MPI_Recv of a vector type", receive_strided},
    };
}

} // namespace ucx_ib_dmabuf::test
