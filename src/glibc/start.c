/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The start of a program that must also run on a glibc before 2.34. There the
 * program passes glibc a function that calls its constructors. Later ones find
 * the constructors, and this machine's crt1.o passes no such function. Linked
 * with --wrap=__libc_start_main, so that crt1.o calls the wrapper here.
 */
#define HIDDEN __attribute__((visibility("hidden")))

typedef void (*constructor_t)(int argc, char **argv, char **envp);
typedef int (*main_t)(int argc, char **argv, char **envp);

/* Set by the linker. */
extern HIDDEN const constructor_t __init_array_start[];
extern HIDDEN const constructor_t __init_array_end[];

int __real___libc_start_main(main_t program, int argc, char **argv,
                             constructor_t init, void (*fini)(void),
                             void (*linker_fini)(void), void *stack_end);
int __wrap___libc_start_main(main_t program, int argc, char **argv,
                             constructor_t init, void (*fini)(void),
                             void (*linker_fini)(void), void *stack_end);

static void construct(int argc, char **argv, char **envp)
{
    for (const constructor_t *one = __init_array_start; one < __init_array_end;
         ++one) {
        (*one)(argc, argv, envp);
    }
}

int __wrap___libc_start_main(main_t program, int argc, char **argv,
                             constructor_t init, void (*fini)(void),
                             void (*linker_fini)(void), void *stack_end)
{
    (void)init;
    return __real___libc_start_main(program, argc, argv, construct, fini,
                                    linker_fini, stack_end);
}
