# SPDX-License-Identifier: BSD-3-Clause
# Makes a table, and the file that `json` names, of rows (test/side_by_side/rows)
# and records (scenarios.sh): "SCENARIO with|without FIGURE VALUE". Fails only
# where a record is missing.

FNR == 1 { ++file }

file == 1 && /^=/ {
    heading[rows + 1] = substr($0, 3)
}
function add_row(of, what, better, says) {
    scenario[++rows] = of
    figure[rows]     = what
    direction[rows]  = better
    text[rows]       = says
}
file == 1 && /^[a-z]/ {
    says = substr($0, length($1 $2) + 3)
    if ($2 == "trace:") {
        add_row($1, "right", "more", says ": messages that arrived right")
        add_row($1, "registrations", "less", "registrations with the NIC")
        add_row($1, "exports", "less", "exports")
        add_row($1, "driver_calls", "less", "calls of the driver")
        add_row($1, "copied", "less", "bytes staged")
    } else
        add_row($1, $2, $3, substr(says, length($3) + 2))
}

file == 2 && $3 == "said" {
    if (!(($1, $2) in said)) {
        said[$1, $2] = $0
        sub(/^[^ ]+ [^ ]+ said /, "", said[$1, $2])
        gsub(/["\\]/, "", said[$1, $2])
    }
    next
}
file == 2 {
    last[$1, $2, $3] = $4
}

function judge(row, with, without,  right_with, right_without) {
    right_with    = last[scenario[row], "with", "right"]
    right_without = last[scenario[row], "without", "right"]
    # What was not done costs nothing.
    if (figure[row] != "right" && right_with != right_without)
        return "-"
    if (last[with] + 0 == last[without] + 0)
        return "same"
    return (last[with] + 0 < last[without] + 0) == (direction[row] == "less") ?
        "better" : "worse"
}

function shown(row, side,  key) {
    key = scenario[row] SUBSEP side SUBSEP figure[row]
    if (!(key in last))
        return "none"
    if (figure[row] == "right")
        return sprintf("%d of %d%s", last[key],
            last[scenario[row], side, "messages"],
            last[scenario[row], side, "status"] == 0 ? "" : " *")
    if (figure[row] ~ /^(copied|pinned)/ && last[key] >= 2 ^ 20)
        return sprintf("%.1f MiB", last[key] / 2 ^ 20)
    return last[key]
}

function number(key) {
    return key in last ? last[key] : "null"
}

# Of how many messages, as far as either side came to say.
function whole(row,  with, without) {
    if (figure[row] != "right")
        return ""
    with    = last[scenario[row], "with", "messages"] + 0
    without = last[scenario[row], "without", "messages"] + 0
    return sprintf(", \"of\": %d", with > without ? with : without)
}

function print_row(row,  with, without, verdict) {
    with    = scenario[row] SUBSEP "with" SUBSEP figure[row]
    without = scenario[row] SUBSEP "without" SUBSEP figure[row]
    if (row in heading)
        printf "\n%s\n", heading[row]
    if (!((scenario[row], "with", "status") in last) ||
        !((scenario[row], "without", "status") in last)) {
        missing = missing " " scenario[row] "." figure[row]
        return
    }
    # A job that ended before it could say.
    if (!(with in last) || !(without in last))
        verdict = "-"
    else
        verdict = judge(row, with, without)
    printf "  %-58s %14s %14s  %s\n", text[row], shown(row, "without"),
        shown(row, "with"), verdict
    lines = lines (lines == "" ? "" : ",\n  ") \
        sprintf("{\"scenario\": \"%s\", \"figure\": \"%s\", \"text\": \"%s\", " \
                "\"better\": \"%s\", \"without\": %s, \"with\": %s, " \
                "\"verdict\": \"%s\"%s}", scenario[row], figure[row],
                text[row], direction[row], number(without), number(with), verdict,
                whole(row))
}

function print_end(name, side,  line) {
    if (last[name, side, "status"] + 0 == 0)
        return
    line = sprintf("status %d, %s", last[name, side, "status"],
                   said[name, side])
    printf "  %s, %s: %s\n", name,
        side == "with" ? "with the plug-in" : "UCX alone", line
    ends = ends (ends == "" ? "\n  " : ",\n  ") \
        sprintf("{\"scenario\": \"%s\", \"side\": \"%s\", \"said\": \"%s\"}",
                name, side, line)
}

function print_ends(  row, seen) {
    print "\n* ended before its end, or with an error:"
    for (row = 1; row <= rows; ++row) {
        if (seen[scenario[row]]++)
            continue
        print_end(scenario[row], "without")
        print_end(scenario[row], "with")
    }
}

END {
    printf "  %-58s %14s %14s\n", "", "UCX alone", "with plug-in"
    for (row = 1; row <= rows; ++row)
        print_row(row)
    print_ends()
    print "\nSimulated: the GPU, and the NIC by soft-RoCE, which moves data with the CPU."
    print "{\"ucx\": \"" ucx "\",\n \"rows\": [\n  " lines "],\n \"ended\": [" \
          ends "],\n" \
          " \"simulated\": [\"GPU\", \"NIC\"]}" >json
    if (missing != "") {
        print "no record of:" missing >"/dev/stderr"
        exit 1
    }
}
