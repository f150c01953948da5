# SPDX-License-Identifier: BSD-3-Clause
# The results of the tests in LIST, from what a gtest printed that ran them, a line each:
#   ok|skipped|failed|crashed|timeout|absent NAME
# usage: awk -v cut=crashed|timeout -f results.awk LIST OUTPUT
# `cut` is the result of a test that did not end.

FILENAME == ARGV[1] { list[++count] = $1; next }

match($0, /\[ RUN      \] /) {
    split(substr($0, RSTART + RLENGTH), words)
    name = words[1]
    result = "ok"
    next
}
/^\[==========\] .* ran\./ { complete = 1 }
name == "" { next }
/\[ +SKIP(PED)? +\]/ { result = "skipped" }
/Connection timed out - abort testing/ { cut = "timeout" } # UCX's own watchdog
index($0, name) && match($0, /\[ +(OK|FAILED) +\] /) {
    if (substr($0, RSTART, RLENGTH) ~ /FAILED/)
        result = "failed"
    results[name] = result
    name = ""
}

END {
    for (i = 1; i <= count; ++i)
        if (list[i] in results)
            print results[list[i]], list[i]
        else if (complete)
            print "absent", list[i]
        else if (list[i] == name || name == "") {
            # The process ended in this test, or before it.
            print cut, list[i]
            exit
        }
}
