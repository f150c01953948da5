// SPDX-License-Identifier: BSD-3-Clause
//
// Comparisons of our declarations (namespace ours) with those of a header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ours = ucx_ib_dmabuf;

// EACH(CALL, x, a, b, ...) is CALL(x, a); CALL(x, b); ...
#define EACH(call, fixed, ...) EXPAND(NEXT(call, fixed, __VA_ARGS__))
#define NEXT(call, fixed, first, ...)                                          \
    call(fixed, first) __VA_OPT__(; AGAIN PARENS(call, fixed, __VA_ARGS__))
#define AGAIN()      NEXT
#define PARENS       ()
#define EXPAND(...)  EXPAND3(EXPAND3(EXPAND3(EXPAND3(__VA_ARGS__))))
#define EXPAND3(...) EXPAND2(EXPAND2(EXPAND2(EXPAND2(__VA_ARGS__))))
#define EXPAND2(...) EXPAND1(EXPAND1(EXPAND1(EXPAND1(__VA_ARGS__))))
#define EXPAND1(...) __VA_ARGS__

// Constants of the same value.
#define SAME(...) EACH(SAME_VALUE, , __VA_ARGS__)
#define SAME_VALUE(unused, name)                                               \
    static_assert(int64_t(ours::name) == int64_t(::name), #name)

// Members of the same size at the same place of a struct, whose size may
// differ.
#define SAME_AT(type, ...)        EACH(SAME_MEMBER, type, __VA_ARGS__)
#define SAME_MEMBER(type, member) AT(type, member, type, member)
#define AT(type, member, our_type, our_member)                                 \
    static_assert(                                                             \
        (offsetof(::type, member) == offsetof(ours::our_type, our_member)) &&  \
            (sizeof(::type::member) == sizeof(ours::our_type::our_member)),    \
        #type "::" #member)

// Types of the same size and alignment.
#define SAME_SIZE(...) EACH(SAME_SIZE_OF, , __VA_ARGS__)
#define SAME_SIZE_OF(unused, type)                                             \
    static_assert((sizeof(::type) == sizeof(ours::type)) &&                    \
                      (alignof(::type) == alignof(ours::type)),                \
                  #type)
