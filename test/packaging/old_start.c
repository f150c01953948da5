/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Preload it: a program then starts as with a glibc before 2.34, which calls
 * the program's constructors through "init" only.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

typedef void (*init_t)(int argc, char **argv, char **envp);
typedef int (*main_t)(int argc, char **argv, char **envp);

int __libc_start_main(main_t program, int argc, char **argv, init_t init);

int __libc_start_main(main_t program, int argc, char **argv, init_t init)
{
    init(argc, argv, environ);
    exit(program(argc, argv, environ));
}
