/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A CUDA runtime that is loaded late and cannot be patched, as jrcxz cannot be
 * moved.
 */
#if defined(__x86_64__)
asm(".globl cudaFreeAsync\n"
    ".type cudaFreeAsync, @function\n"
    "cudaFreeAsync:\n"
    "jrcxz 1f\n"
    "1: xor %eax, %eax\n"
    "nop\n"
    "ret\n");
#endif
