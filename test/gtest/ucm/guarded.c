// SPDX-License-Identifier: BSD-3-Clause
//
// A library for test_patch_aarch64.cc, compiled with landing pads. Each
// function returns its argument plus 5.
int guarded_leaf(int value);
int guarded_caller(int value);

static __attribute__((noinline)) int add(int value)
{
    volatile int kept = value + 4;
    return kept;
}

__attribute__((aligned(16))) int guarded_leaf(int value)
{
    return value + 5;
}

__attribute__((aligned(16))) int guarded_caller(int value)
{
    return add(value) + 1;
}
