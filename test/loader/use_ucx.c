/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Loads instances of UCX and uses them, as its arguments say:
 *   global PATH, local PATH  open this library, which later arguments use
 *   beside PATH  open another library, and print its component's address
 *   close        close the library of "beside"
 *   plugin PATH  open this library, and start it as UCX starts a module
 *   threads PATH  the same by eight threads, with slow pipes
 *   settings     print the settings that UCP would use
 *   components   make libuct load its modules
 *   events       make libucm load its modules
 *   loaded       print the UCX libraries of the process
 *   environment  print UCP's setting in the environment
 *   secure       print whether the kernel sets AT_SECURE for this program
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *library;
static void *other;

static void *symbol(const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return found;
}

static void check(const char *what, int status)
{
    if (status != 0) {
        fprintf(stderr, "%s: status %d\n", what, status);
        exit(3);
    }
}

static void *open_library(const char *path, int mode)
{
    void *opened = dlopen(path, RTLD_LAZY | mode);

    if (opened == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return opened;
}

static void print_settings(void)
{
    int (*read)(const char *, const char *, void **);
    void (*print)(const void *, FILE *, const char *, int);
    void (*release)(void *);
    void *config;

    *(void **)&read    = symbol("ucp_config_read");
    *(void **)&print   = symbol("ucp_config_print");
    *(void **)&release = symbol("ucp_config_release");
    check("ucp_config_read", read(NULL, NULL, &config));
    print(config, stdout, NULL, 1);
    release(config);
}

static void query_components(void)
{
    int (*query)(void **, unsigned *);
    void (*release)(void *);
    void *components;
    unsigned count;

    *(void **)&query   = symbol("uct_query_components");
    *(void **)&release = symbol("uct_release_component_list");
    check("uct_query_components", query(&components, &count));
    release(components);
}

static void ignore(int type, void *event, void *arg)
{
    (void)type;
    (void)event;
    (void)arg;
}

static void set_event_handler(void)
{
    int (*set)(int, int, void (*)(int, void *, void *), void *);

    *(void **)&set = symbol("ucm_set_event_handler");
    set(1 << 21 /* UCM_EVENT_MEM_TYPE_FREE */, 0, ignore, NULL);
}

static void start_plugin(const char *path)
{
    int (*init)(void);
    void *plugin = open_library(path, RTLD_LOCAL);

    *(void **)&init = dlsym(plugin, "ucs_module_global_init");
    check(path, (init == NULL) ? -1 : init());
}

static int pipes_are_slow;

/* The plug-in reads possibly unmapped memory through pipes. Slow ones let
 * threads overtake each other meanwhile. */
int pipe2(int ends[2], int flags)
{
    if (pipes_are_slow) {
        usleep((useconds_t)rand() % 2000);
    }
    return (int)syscall(SYS_pipe2, ends, flags);
}

static void *start_in_thread(void *path)
{
    start_plugin(path);
    return NULL;
}

static void start_by_threads(char *path)
{
    pthread_t threads[8];
    int i;

    pipes_are_slow = 1;
    for (i = 0; i < 8; ++i) {
        pthread_create(&threads[i], NULL, start_in_thread, path);
    }
    for (i = 0; i < 8; ++i) {
        pthread_join(threads[i], NULL);
    }
}

static int print_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (strstr(info->dlpi_name, "/libu") != NULL) {
        printf("loaded: %s\n", info->dlpi_name);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *value;
    int i;

    for (i = 1; i < argc; ++i) {
        if (!strcmp(argv[i], "global") || !strcmp(argv[i], "local")) {
            library = open_library(
                argv[i + 1], (argv[i][0] == 'g') ? RTLD_GLOBAL : RTLD_LOCAL);
            ++i;
        } else if (!strcmp(argv[i], "beside")) {
            other = open_library(argv[++i], RTLD_LOCAL);
            printf("component: %p\n", dlsym(other, "uct_ib_component"));
        } else if (!strcmp(argv[i], "close")) {
            dlclose(other);
        } else if (!strcmp(argv[i], "plugin")) {
            start_plugin(argv[++i]);
        } else if (!strcmp(argv[i], "threads")) {
            start_by_threads(argv[++i]);
        } else if (!strcmp(argv[i], "settings")) {
            print_settings();
        } else if (!strcmp(argv[i], "components")) {
            query_components();
        } else if (!strcmp(argv[i], "events")) {
            set_event_handler();
        } else if (!strcmp(argv[i], "loaded")) {
            dl_iterate_phdr(print_library, NULL);
        } else if (!strcmp(argv[i], "environment")) {
            value = getenv("UCX_MEMTYPE_REG_WHOLE_ALLOC_TYPES");
            printf("environment: %s\n", (value == NULL) ? "untouched" : value);
        } else if (!strcmp(argv[i], "secure")) {
            printf("secure: %lu\n", getauxval(AT_SECURE));
        }
    }
    return 0;
}
