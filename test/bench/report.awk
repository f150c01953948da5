# SPDX-License-Identifier: BSD-3-Clause
# Makes the table of targets and counts. Ends with 1 if a target is missed or a count is not
# there.
# usage: awk -f report.awk TARGETS ALONE WITH
# ALONE and WITH: "NAME COUNT" lines, of UCX alone and with the plug-in.

FNR == 1 { ++file }
/^#/ || NF == 0 { next }

file == 1 {
    order[++targets] = $1
    limit[$1] = $2
    sub(/^[^ ]+ +[^ ]+ +/, "")
    text[order[targets]] = $0
    next
}

# A word would be 0 to awk, and meet every target. What is only shown may be a difference of
# times, which is below 0 at times.
$2 ~ /^[0-9]+$/ || limit[$1] == "-" && $2 ~ /^-[0-9]+$/ { count[file, $1] = $2 }

# "met" or "MISSED"; nothing if the count is only shown.
function judge(name, alone, with) {
    if (with == "")
        return "MISSED"
    if (limit[name] == "-")
        return ""
    if (limit[name] ~ /^\+/)
        return alone != "" && with - alone <= limit[name] + 0 ? "met" : "MISSED"
    if (limit[name] ~ /^x/)
        return alone > 0 && with / alone <= substr(limit[name], 2) ? "met" : "MISSED"
    return with <= limit[name] + 0 ? "met" : "MISSED"
}

END {
    printf "%-56s %8s %9s %7s\n", "", "plug-in", "UCX alone", "target"
    for (t = 1; t <= targets; t++) {
        name = order[t]
        verdict = judge(name, count[2, name], count[3, name])
        missed += verdict == "MISSED"
        printf "%-56s %8s %9s %7s  %s\n", text[name], count[3, name],
            name ~ /own$|\/(system|loader)_calls$/ ? "" : count[2, name], limit[name], verdict
    }
    printf "%s\n", missed ? missed " missed" : "all targets met"
    exit missed > 0
}
