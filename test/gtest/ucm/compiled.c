// SPDX-License-Identifier: BSD-3-Clause
//
// Functions whose first instructions are of many kinds. test_patch_compiled.cc
// patches them and those of fake_cuda.c, as compilers made them with several
// options. Arguments may be any.
#include <stdarg.h>
#include <unistd.h>

#define SHAPE(_name, _result)                                                  \
    int _name(int value);                                                      \
    __attribute__((aligned(16))) int _name(int value)                          \
    {                                                                          \
        return _result;                                                        \
    }

extern int shape_shared;
int shape_shared = 3;
static volatile int counted;

static __attribute__((noinline)) int add(int value)
{
    volatile int kept = value + 4;
    return kept;
}

SHAPE(shape_leaf, value + 5) // two instructions
SHAPE(shape_caller, add(value) + 1)
SHAPE(shape_nothing, value) // one instruction
SHAPE(shape_tail_call, add(value))
SHAPE(shape_plt_jump, getpid())
SHAPE(shape_static, value + counted)
SHAPE(shape_global, value + shape_shared)
SHAPE(shape_zero, (value == 0) ? 1 : add(value))
SHAPE(shape_bit, ((value & 8) != 0) ? add(value) : 2)
SHAPE(shape_sign, (value < 0) ? -1 : add(value))
SHAPE(shape_constant, value ^ 0x12345678)
SHAPE(shape_float, (int)((float)(value & 7) * 1.37f))
SHAPE(shape_address, (int)((unsigned long)&counted & 7))
SHAPE(shape_choice, "2357bdhj"[value & 7])

int shape_loop(int value);
int shape_loop(int value)
{
    int sum = 0;
    for (int i = 0; i < (value & 7); ++i) {
        sum += add(i);
    }
    return sum;
}

int shape_large_frame(int value);
int shape_large_frame(int value)
{
    volatile char buffer[70000];
    buffer[value & 7] = 1;
    return buffer[value & 7];
}

int shape_variable(int count, ...);
int shape_variable(int count, ...)
{
    va_list list;
    va_start(list, count);
    const int first = va_arg(list, int);
    va_end(list);
    return first + count;
}

int shape_many_registers(int value);
int shape_many_registers(int value)
{
    const int a = add(value), b = add(a), c = add(b), d = add(c), e = add(d);
    return a ^ (b * 3) ^ (c * 5) ^ (d * 7) ^ (e * 11);
}
