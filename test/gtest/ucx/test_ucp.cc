// SPDX-License-Identifier: BSD-3-Clause
//
// UCP's messages of atomic operations: which messages are diverted, and what
// UCP's handler then gets. This program acts as the libucp.
#include <array>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <optional>
#include <uct/ib_dmabuf/ucx/abi.h>
#include <uct/ib_dmabuf/ucx/ucp.h>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

// The last call of UCP's own handler.
struct {
    int calls       = 0;
    void *arg       = nullptr;
    const void *at  = nullptr;
    unsigned flags  = 0;
    uint64_t before = 0; // value at the operation's address
    std::vector<uint8_t> bytes;
} seen;

ucs_status_t ucp_handler(void *arg, void *data, size_t length, unsigned flags)
{
    ucp_atomic_req_hdr_t header = {};
    const auto *bytes           = static_cast<uint8_t *>(data);

    ++seen.calls;
    seen.arg    = arg;
    seen.at     = data;
    seen.flags  = flags;
    seen.before = 0;
    seen.bytes.assign(bytes, bytes + length);
    memcpy(&header, data, std::min(length, sizeof(header)));
    if (header.address != 0) {
        memcpy(&seen.before, reinterpret_cast<void *>(header.address),
               header.length);
    }
    return UCS_OK;
}

ucs_status_t ucp_proxy(void *arg, void *data, size_t length, unsigned flags)
{
    return ucp_handler(static_cast<char *>(arg) + 1, data, length, flags);
}

// The last request to do_it(), and whether do_it() performs it.
std::optional<atomic_request> asked;
bool does = true;

bool do_it(const atomic_request &request, uint64_t *before) noexcept
{
    asked = request;
    if (does) {
        memcpy(before, "01234567", request.length);
    }
    return does;
}

struct [[gnu::packed]] message {
    ucp_atomic_req_hdr_t header;
    std::array<uint8_t, 16> operands;
};

message make(uint8_t length, uint8_t opcode)
{
    message made{{0, 5, 6, length, opcode}, {}};

    for (uint8_t i = 0; i < 16; ++i) {
        made.operands[i] = i + 1;
    }
    return made;
}

constexpr ucp_am_handler_t as_known = {feature_amo, ucp_handler, nullptr, 0,
                                       ucp_proxy};

} // namespace

extern "C" ucp_am_handler_t ucp_am_handler_UCP_AM_ID_ATOMIC_REQ;
ucp_am_handler_t ucp_am_handler_UCP_AM_ID_ATOMIC_REQ = as_known;

namespace {

class test_ucp : public ::testing::Test {
protected:
    void SetUp() override
    {
        asked.reset();
        does   = true;
        seen   = {};
        *known = as_known;
    }

    static const char *refusal()
    {
        return divert_atomics(library::everything(), do_it);
    }
    static void divert()
    {
        ASSERT_STREQ(nullptr, refusal());
        ASSERT_NE(&ucp_handler, known->cb);
    }
    // Delivers the header and some bytes of operands, with all other arguments.
    static void deliver(message &what, size_t operands)
    {
        EXPECT_EQ(UCS_OK,
                  known->cb(&what, &what, sizeof(what.header) + operands,
                            UCT_CB_PARAM_FLAG_DESC | 2));
        EXPECT_EQ(1, seen.calls);
        EXPECT_EQ(&what, seen.arg);
    }
    static void expect_passed_on(message &what, size_t operands)
    {
        deliver(what, operands);
        EXPECT_EQ(&what, seen.at);
        EXPECT_EQ(sizeof(what.header) + operands, seen.bytes.size());
        EXPECT_EQ(UCT_CB_PARAM_FLAG_DESC | 2, seen.flags);
    }

    static constexpr auto known = &ucp_am_handler_UCP_AM_ID_ATOMIC_REQ;
};

TEST_F(test_ucp, what_is_not_as_it_is_known_is_left_alone)
{
    void *const of_libc = dlsym(RTLD_DEFAULT, "puts");

    known->features = 1;
    EXPECT_STREQ("its handler is not as it is known", refusal());
    *known    = as_known;
    known->cb = reinterpret_cast<uct_am_callback_t>(of_libc);
    EXPECT_STREQ("its handler is another library's", refusal());
    *known          = as_known;
    known->proxy_cb = nullptr;
    EXPECT_STREQ("its handler is another library's", refusal());
    EXPECT_EQ(nullptr, divert_atomics(library::around(of_libc), do_it))
        << "libc is no libucp";
}

TEST_F(test_ucp, an_operation_that_was_done_is_only_answered)
{
    divert();
    for (const uint8_t word : {4, 8}) {
        for (uint8_t opcode = 0; opcode <= 5; ++opcode) {
            message what        = make(word, opcode);
            what.header.address = 0x1234;
            const size_t operands =
                (opcode == uint8_t(atomic_operation::cswap)) ? 2 * word : word;
            seen.calls = 0;
            deliver(what, operands);
            ASSERT_TRUE(asked);
            EXPECT_EQ(0x1234u, asked->address);
            EXPECT_EQ(word, asked->length);
            EXPECT_EQ(opcode, uint8_t(asked->operation));
            EXPECT_EQ(word == 4 ? 0x04030201u : 0x0807060504030201u,
                      asked->operand);
            EXPECT_EQ(opcode != 5 ? 0
                      : word == 4 ? 0x08070605u
                                  : 0x100f0e0d0c0b0a09u,
                      asked->swapped);
            EXPECT_EQ(word == 4 ? 0x33323130u : 0x3736353433323130u,
                      seen.before);
            EXPECT_EQ(2u, seen.flags) << "ours cannot be kept";
            // All but the address is the same.
            EXPECT_EQ(0, memcmp(&seen.bytes[8],
                                reinterpret_cast<uint8_t *>(&what) + 8,
                                seen.bytes.size() - 8));
        }
    }
}

TEST_F(test_ucp, what_is_not_done_is_passed_on_as_it_is)
{
    uint64_t word       = 0;
    message what        = make(8, 0);
    what.header.address = reinterpret_cast<uintptr_t>(&word);
    does                = false;

    divert();
    expect_passed_on(what, 8);
    EXPECT_TRUE(asked);
}

TEST_F(test_ucp, what_is_no_operation_is_passed_on_and_nobody_asked)
{
    divert();
    for (auto [length, opcode, operands] : {std::array{8, 6, 8},
                                            {8, 0, 7},
                                            {8, 5, 15},
                                            {4, 5, 4},
                                            {2, 0, 8},
                                            {0, 0, 0},
                                            {16, 0, 16}}) {
        message what = make(uint8_t(length), uint8_t(opcode));
        seen.calls   = 0;
        expect_passed_on(what, size_t(operands));
    }
    std::array<uint8_t, 64> longer = {};
    for (const size_t length : {0, 25, 43, 64}) {
        seen.calls = 0;
        EXPECT_EQ(UCS_OK, known->cb(nullptr, longer.data(), length, 0));
        EXPECT_EQ(length, seen.bytes.size());
        EXPECT_EQ(1, seen.calls);
    }
    EXPECT_FALSE(asked);
}

TEST_F(test_ucp, the_one_that_counts_is_diverted_to_itself)
{
    message what = make(8, 0);

    divert();
    EXPECT_EQ(UCS_OK,
              known->proxy_cb(&what, &what, sizeof(what.header) + 8, 0));
    EXPECT_EQ(reinterpret_cast<char *>(&what) + 1, seen.arg);
    EXPECT_TRUE(asked);
}

TEST_F(test_ucp, a_library_may_come_back_any_number_of_times)
{
    for (int i = 0; i < 20; ++i) {
        *known = as_known;
        divert();
        const auto diverted = known->cb;
        divert();
        EXPECT_EQ(diverted, known->cb) << "once";
    }
    message what = make(8, 0);
    deliver(what, 8);
}

} // namespace
