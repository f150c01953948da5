// SPDX-License-Identifier: BSD-3-Clause
//
// Defines an entry point of a simulated library.
#pragma once

// Tools that watch memory (UCX among them) overwrite the first bytes of an
// entry point with a jump and move the displaced instructions elsewhere. They
// know the prologues of compilers and of NVIDIA's libraries, not every
// instruction. So each entry point has 32 bytes or more of its own, begins with
// movable instructions, and jumps to the C++ function through a pointer. The
// compiler can neither merge nor inline it.
#if defined(__x86_64__)
#define SIM_TRAMPOLINE(_name)                                                  \
    asm(".pushsection .text.sim_entries, \"ax\", @progbits\n"                  \
        ".globl " #_name "\n"                                                  \
        ".type " #_name ", @function\n"                                        \
        ".p2align 5\n" #_name ":\n"                                            \
        "push %rbp\n"                                                          \
        "mov %rsp, %rbp\n"                                                     \
        "mov $0, %eax\n"                                                       \
        "mov $0, %eax\n"                                                       \
        "pop %rbp\n"                                                           \
        "jmp *sim_ptr_" #_name "(%rip)\n"                                      \
        ".p2align 5\n"                                                         \
        ".size " #_name ", . - " #_name "\n"                                   \
        ".popsection\n");
#elif defined(__aarch64__)
#define SIM_TRAMPOLINE(_name)                                                  \
    asm(".pushsection .text.sim_entries, \"ax\", @progbits\n"                  \
        ".globl " #_name "\n"                                                  \
        ".type " #_name ", %function\n"                                        \
        ".p2align 5\n" #_name ":\n"                                            \
        "stp x29, x30, [sp, #-16]!\n"                                          \
        "mov x29, sp\n"                                                        \
        "mov w9, #0\n"                                                         \
        "mov w9, #0\n"                                                         \
        "ldp x29, x30, [sp], #16\n"                                            \
        "adrp x16, sim_ptr_" #_name "\n"                                       \
        "ldr x16, [x16, :lo12:sim_ptr_" #_name "]\n"                           \
        "br x16\n"                                                             \
        ".size " #_name ", . - " #_name "\n"                                   \
        ".popsection\n");
#else
#error "no entry points for this processor"
#endif

#define SIM_HIDDEN __attribute__((visibility("hidden")))
#define SIM_PUBLIC __attribute__((visibility("default")))
