# SPDX-License-Identifier: BSD-3-Clause
# Turns the targets and the results of all runs into the table; -v json=FILE
# writes the same there. Ends with 1 if a target is missed, or not measured in
# each of the runs.
# usage: awk -v json=FILE -v times=RUNS -f test/common/figures.awk -f report.awk
#     TARGETS RESULTS
# RESULTS: NAME FIGURE [FIGURE OF THE PEER], a line for each run; traces once.

/^#/ || NF == 0 { next }

FNR == NR {
    order[++targets] = $1
    kind[$1] = $2
    limit[$1] = $3
    text = $0
    sub(/^[^ ]+ +[^ ]+ +[^ ]+ +/, "", text)
    what[$1] = text
    next
}

# "nan", say, would be 0 to awk, and meet every target.
function is_figure(text) { return text ~ /^[0-9]+([.][0-9]+)?$/ }

!is_figure($2) || ((kind[$1] == "ratio" || NF > 2) && !(is_figure($3) && $3 > 0)) {
    next
}

{
    run = ++runs[$1]
    value[$1, run] = $2
    peer[$1, run] = $3
    judged = kind[$1] == "ratio" ? $2 / $3 : $2
    if (run == 1 || judged > worst[$1]) worst[$1] = judged
}

# Of all runs of a name.
function median(table, name,    i, sorted) {
    for (i = 1; i <= runs[name]; i++) sorted[i] = table[name, i]
    sort(sorted, runs[name] + 0)
    return middle(sorted, runs[name] + 0)
}

function list(table, name,    i, text) {
    for (i = 1; i <= runs[name]; i++)
        text = text (i > 1 ? ", " : "") table[name, i]
    return "[" text "]"
}

function write_json(name, verdict) {
    printf "%s\n  {\"name\": \"%s\", \"what\": \"%s\", \"runs\": %s", separator,
           name, what[name], list(value, name) >json
    if (peer[name, 1] != "")
        printf ", \"peer\": %s", list(peer, name) >json
    if (kind[name] != "-")
        printf ", \"%s_target\": %s, \"worst\": %.3f, \"met\": %s", kind[name],
               limit[name], worst[name], verdict == "met" ? "true" : "false" >json
    printf "}" >json
    separator = ","
}

END {
    printf "%-52s %9s %10s %6s %8s\n", "medians of the runs; the worst ratio",
           "plug-in", "peer", "ratio", "target"
    for (t = 1; t <= targets; t++) {
        name = order[t]
        verdict = ""
        if (kind[name] != "-")
            verdict = runs[name] && worst[name] <= limit[name] ? "met" : "MISSED"
        if (runs[name] < (name ~ /^trace\// ? 1 : times)) verdict = "MISSED"
        missed += verdict == "MISSED"
        printf "%-52s %9.1f", what[name], median(value, name)
        if (runs[name] && peer[name, 1] != "") {
            ratio = 0
            for (i = 1; i <= runs[name]; i++)
                if (value[name, i] / peer[name, i] > ratio)
                    ratio = value[name, i] / peer[name, i]
            printf " %10.1f %6.2f", median(peer, name), ratio
        } else {
            printf " %10s %6s", "", ""
        }
        printf " %8s  %s\n", kind[name] == "-" ? "" : limit[name], verdict
        if (json != "") write_json(name, verdict)
    }
    printf "%s\n", missed ? missed " missed" : "all targets met"
    exit missed > 0
}
