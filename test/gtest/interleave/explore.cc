// SPDX-License-Identifier: BSD-3-Clause
#include "explore.h"
#include "steps.h"
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

namespace interleave {

void scenario::add(const std::function<void()> &first,
                   const std::function<void()> &then)
{
    threads.emplace_back([first, then] {
        first();
        the_machine.start();
        then();
        ucx_ib_dmabuf::steps::thread_key::end_of_thread();
    });
}

static outcome explore_here(const maker &make, schedule *order)
{
    do {
        auto what = make();
        the_machine.run(what->threads, order);
        if (!the_machine.failed()) {
            what->finish();
        }
        if (the_machine.failed()) {
            // Stopped somewhere: nothing can be taken down.
            static_cast<void>(what.release());
            break;
        }
    } while (order->next());
    return {order->executions(), the_machine.violation(), the_machine.trace()};
}

outcome explore(const maker &make, schedule order)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return {0, "no pipe", ""};
    }
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        outcome result = explore_here(make, &order);
        dprintf(ends[1], "%llu\n%s\n%s",
                static_cast<unsigned long long>(result.executions),
                result.violation.c_str(), result.trace.c_str());
        _exit(0);
    }
    close(ends[1]);
    outcome result;
    int status = -1;
    if (FILE *report = fdopen(ends[0], "r")) {
        std::string text;
        for (int c; (c = fgetc(report)) != EOF;) {
            text += static_cast<char>(c);
        }
        fclose(report);
        size_t first = text.find('\n'), second = text.find('\n', first + 1);
        if (second != std::string::npos) {
            result = {std::stoull(text),
                      text.substr(first + 1, second - first - 1),
                      text.substr(second + 1)};
        }
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0 ||
        result.executions == 0) {
        result.violation = "ended early, wait status " + std::to_string(status);
    }
    return result;
}

} // namespace interleave
namespace interleave {
mutant left_out = mutant::none;
}
