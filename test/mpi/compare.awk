# SPDX-License-Identifier: BSD-3-Clause
# Makes a table, and the file that `json` names, of the records of test/mpi/compare:
# "ROUND INSTALLATION " and a line of mpi_demo's. Fails where a target is missed: the
# rules are in docs/side-by-side.md. Wants test/common/figures.awk. `names`: the
# installations, `wanted`: the sizes, `rounds`: how many, `limit`: of the latency in
# that of "cuda".

BEGIN {
    name_count = split(names, name_of, " ")
    size_count = split(wanted, size_of, " ")
}

# "ROUND NAME size SIZE device LATENCY BANDWIDTH STAGED host LATENCY BANDWIDTH STAGED
#  messages COUNT wrong COUNT registrations COUNT checksum HEX ratios RATIO..."
function is_whole() {
    return $3 == "size" && is_positive($6) && is_positive($7) &&
        ($8 $14 $16 $18) ~ /^[0-9]+$/ && $20 ~ /^[0-9a-f]+$/
}

function is_positive(text) { return text ~ /^[0-9]+(\.[0-9]+)?$/ && text > 0 }

is_whole() {
    latency[$2, $4, $1]   = $6
    bandwidth[$2, $4, $1] = $7
    staged[$2, $4, $1]    = $8
    registered[$2]       += $18
    messages             += $14
    wrong                += $16
    if (!($4 in checksum))
        checksum[$4] = $20
    else if (checksum[$4] != $20)
        differing = differing " " $2 " (" bytes($4) ", round " $1 ")"
}

# all FIGURE of an installation and a size: sets each[1..], and returns how many.
function rounds_of(figure, name, size, each,  round, n) {
    split("", each)
    for (round = 1; round <= rounds; ++round)
        if ((name, size, round) in figure)
            each[++n] = figure[name, size, round] + 0
    return n + 0
}

# That of an installation in that of "cuda" in the same round.
function ratios_of(name, size, each,  round, n) {
    split("", each)
    for (round = 1; round <= rounds; ++round)
        if ((name, size, round) in latency && ("cuda", size, round) in latency)
            each[++n] = latency[name, size, round] / latency["cuda", size, round]
    return n + 0
}

function list(each, n, form,  i, text) {
    for (i = 1; i <= n; ++i)
        text = text (i > 1 ? ", " : "") sprintf(form, each[i])
    return "[" text "]"
}

# The median, and the range in per cent of it.
function with_range(each, n) {
    if (n == 0)
        return "none"
    sort(each, n)
    return sprintf("%.1f %3d%%", middle(each, n),
                   100 * (each[n] - each[1]) / middle(each, n) + 0.5)
}

function as_bytes(each, n) {
    if (n == 0)
        return "none"
    sort(each, n)
    return bytes(middle(each, n))
}

function as_ratio(each, n,  found) {
    if (n == 0)
        return "none"
    sort(each, n)
    interval(each, n, found)
    return sprintf("%.2f %.2f-%.2f", middle(each, n), found["lower"],
                   found["upper"])
}

function row(first, cells,  i) {
    printf "%9s |", first
    for (i = 1; i <= name_count; ++i)
        printf " %15s", cells[i]
    printf "\n"
}

function block(what, title,  i, j, each, cells, name, size) {
    printf "\n%s\n", title
    for (i = 1; i <= size_count; ++i) {
        size = size_of[i]
        for (j = 1; j <= name_count; ++j) {
            name = name_of[j]
            if (what == "latency")
                cells[j] = with_range(each, rounds_of(latency, name, size, each))
            else if (what == "bandwidth")
                cells[j] = with_range(each, rounds_of(bandwidth, name, size, each))
            else if (what == "staged")
                cells[j] = as_bytes(each, rounds_of(staged, name, size, each))
            else
                cells[j] = as_ratio(each, ratios_of(name, size, each))
        }
        row(bytes(size), cells)
    }
}

function print_table(  i, cells) {
    printf "\n"
    row("", name_of)
    block("latency", "latency, us: median of " rounds " rounds, and their range in % of it")
    block("ratio", "latency in that of cuda: median of the rounds' ratios, its interval")
    block("bandwidth", "bandwidth, MB/s: median, and range in % of it")
    block("staged", "staged by copies, in a round: median")
    printf "\ndma-bufs registered, in a round\n"
    for (i = 1; i <= name_count; ++i)
        cells[i] = sprintf("%.1f", rounds ? registered[name_of[i]] / rounds : 0)
    row("all", cells)
    printf "\nSimulated: the GPU, and the NIC by soft-RoCE, which moves data with the CPU.\n"
    printf "Times say how the installations compare here, not how fast a NIC is.\n\n"
}

# "shown", "refuted" or "undecided", of one installation: as docs/side-by-side.md has it. Sets
# worst: the size that is the furthest from the limit, in words.
function judge_latency(name,  i, n, size, each, found, verdict, highest) {
    verdict = "shown"
    worst = ""
    for (i = 1; i <= size_count; ++i) {
        size = size_of[i]
        if (size < 65536)
            continue
        n = ratios_of(name, size, each)
        if (n == 0)
            return "refuted"
        sort(each, n)
        interval(each, n, found)
        if (worst == "" || found["upper"] > highest) {
            highest = found["upper"]
            worst = sprintf("at %s: median of %d rounds %.3f, %.1f %% interval " \
                            "%.3f to %.3f", bytes(size), n, middle(each, n),
                            100 * found["coverage"], found["lower"],
                            found["upper"])
        }
        if (found["coverage"] < 0.95 || found["lower"] > limit)
            verdict = "refuted"
        else if (verdict == "shown" && found["upper"] > limit)
            verdict = "undecided"
    }
    return worst == "" ? "refuted" : verdict
}

function judge_latencies(  i, name, text) {
    for (i = 1; i <= name_count; ++i) {
        name = name_of[i]
        if (name ~ /^cuda/)
            continue
        verdict_of[name] = judge_latency(name)
        text = sprintf("%s: from 64 KiB on, latency at most %.2f of cuda's", name,
                       limit)
        if (verdict_of[name] == "undecided")
            printf "?    %s: cannot be said,\n     the rounds differ too much; " \
                "try again when less else runs\n", text
        else
            promise(verdict_of[name] == "shown", text)
        if (worst != "")
            printf "     (%s)\n", worst
    }
}

function missing(  i, j, round, n, text) {
    for (i = 1; i <= name_count; ++i) {
        n = 0
        for (round = 1; round <= rounds; ++round)
            for (j = 1; j <= size_count; ++j)
                n += !((name_of[i], size_of[j], round) in latency)
        if (n)
            text = text sprintf("; %s lacks %d of %d", name_of[i], n,
                                rounds * size_count)
    }
    return text
}

function judge(  i, j, name, lacks, copied, each, n, unregistered) {
    lacks = missing()
    promise(lacks == "" && rounds * size_count > 0,
            "every size was measured in every round" lacks)
    promise(messages > 0 && wrong == 0,
            sprintf("every message arrived unaltered: %d, of these wrong %d",
                    messages, wrong))
    promise(lacks == "" && differing == "",
            "the GPUs' bytes are the same on all" \
            (differing == "" ? "" : ", but not on:" differing))
    for (i = 1; i <= name_count; ++i) {
        name = name_of[i]
        if (name == "cuda-alone")
            continue
        if (!registered[name])
            unregistered = unregistered " " name
        for (j = 1; j <= size_count; ++j)
            if (size_of[j] >= 65536)
                for (n = rounds_of(staged, name, size_of[j], each); n > 0; --n)
                    copied += each[n]
    }
    promise(unregistered == "", "with the plug-in device memory was registered" \
            (unregistered == "" ? "" : ", but not on:" unregistered))
    promise(copied == 0, "from 64 KiB on, with the plug-in: " \
                         (copied ? bytes(copied) : "0 bytes") " staged")
    judge_latencies()
}

function write_json(  i, j, n, name, size, each, part, text) {
    for (j = 1; j <= name_count; ++j) {
        name = name_of[j]
        text = text (j > 1 ? ",\n" : "") "  {" pair("name", "\"" name "\"") ", " \
            pair("registrations", registered[name] + 0) ", " \
            pair("latency", name in verdict_of ?
                 "\"" verdict_of[name] "\"" : "null") ", " pair("sizes", "[")
        for (i = 1; i <= size_count; ++i) {
            size = size_of[i]
            text = text (i > 1 ? "," : "") "\n   {" pair("size", size)
            n = rounds_of(latency, name, size, each)
            text = text ", " pair("latency_us", list(each, n, "%.1f"))
            n = rounds_of(bandwidth, name, size, each)
            text = text ", " pair("bandwidth_mb_s", list(each, n, "%.1f"))
            n = rounds_of(staged, name, size, each)
            text = text ", " pair("staged_bytes", list(each, n, "%.0f"))
            n = ratios_of(name, size, each)
            text = text ",\n    " pair("latency_to_cuda", list(each, n, "%.4f")) "}"
        }
        text = text "]}"
    }
    print "{" pair("rounds", rounds) ", " pair("limit", limit) "," >json
    print " " pair("installations", "[\n" text "]") "," >json
    print " " pair("messages", messages + 0) ", " pair("wrong", wrong + 0) "," >json
    print " " pair("same_bytes", differing == "" ? "true" : "false") "," >json
    print " " pair("simulated", "[\"GPU\", \"NIC\"]") "," >json
    print " " pair("passed", broken ? "false" : "true") "}" >json
}

END {
    print_table()
    judge()
    write_json()
    exit broken + 0
}
