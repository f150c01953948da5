// SPDX-License-Identifier: BSD-3-Clause
#include "touches.h"
#include <cstddef>

// Arguments of calls that send, of calls that receive, and of both.
#define TO_PEER   a.peer(), tag, MPI_COMM_WORLD
#define SENT      a.from, a.count, MPI_INT, TO_PEER
#define RECEIVED  a.to, a.count, MPI_INT, TO_PEER
#define UNCHECKED MPI_STATUS_IGNORE

namespace ucx_ib_dmabuf::test {
namespace {

constexpr int tag = 7;

using args = const arguments &;

// Every second int: `count` of them span two parts.
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

// Even ranks send, in one of MPI's ways; odd ranks receive.
template <class Send>
void exchange(args a, Send send)
{
    a.sends() ? send() : (void)MPI_Recv(RECEIVED, UNCHECKED);
}

void send_buffered(args a)
{
    int size = 0;
    MPI_Pack_size(a.count, MPI_INT, MPI_COMM_WORLD, &size);
    std::vector<char> attached(static_cast<size_t>(size + MPI_BSEND_OVERHEAD));
    MPI_Buffer_attach(attached.data(), static_cast<int>(attached.size()));
    MPI_Bsend(SENT);
    MPI_Buffer_detach(static_cast<void *>(attached.data()), &size);
}

void send_and_receive_at_once(args a)
{
    MPI_Request requests[2];

    MPI_Irecv(RECEIVED, &requests[0]);
    MPI_Isend(SENT, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

void start(args a)
{
    MPI_Request requests[2];

    MPI_Recv_init(RECEIVED, &requests[0]);
    MPI_Send_init(SENT, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

void receive_matched(args a)
{
    MPI_Message message = MPI_MESSAGE_NULL;

    MPI_Mprobe(TO_PEER, &message, UNCHECKED);
    MPI_Mrecv(a.to, a.count, MPI_INT, &message, UNCHECKED);
}

} // namespace

std::vector<mpi_operation> point_to_point()
{
    return {
        {"MPI_Send, MPI_Recv",
         [](args a) { exchange(a, [&] { MPI_Send(SENT); }); }},
        {"MPI_Ssend", [](args a) { exchange(a, [&] { MPI_Ssend(SENT); }); }},
        {"MPI_Bsend", [](args a) { exchange(a, [&] { send_buffered(a); }); }},
        {"MPI_Isend, MPI_Irecv", send_and_receive_at_once},
        {"MPI_Send_init, MPI_Recv_init", start},
        {"MPI_Mrecv",
         [](args a) { a.sends() ? (void)MPI_Send(SENT) : receive_matched(a); }},
        {"MPI_Sendrecv",
         [](args a) {
             MPI_Sendrecv(a.from, a.count, MPI_INT, a.peer(), tag, RECEIVED,
                          UNCHECKED);
         }},
        {"MPI_Sendrecv_replace",
         [](args a) {
             MPI_Sendrecv_replace(a.from, a.count, MPI_INT, a.peer(), tag,
                                  TO_PEER, UNCHECKED);
         }},
        {"MPI_Sendrecv with oneself",
         [](args a) {
             MPI_Sendrecv(a.from, a.count, MPI_INT, a.rank, tag, a.to, a.count,
                          MPI_INT, a.rank, tag, MPI_COMM_WORLD, UNCHECKED);
         }},
        {"MPI_Send of a vector type",
         [](args a) {
             const strided type(a.count);
             exchange(a, [&] { MPI_Send(a.from, 1, type, TO_PEER); });
         }},
        {"MPI_Recv of a vector type",
         [](args a) {
             const strided type(a.count);
             a.sends() ? MPI_Send(SENT)
                       : MPI_Recv(a.to, 1, type, TO_PEER, UNCHECKED);
         }},
    };
}

} // namespace ucx_ib_dmabuf::test
