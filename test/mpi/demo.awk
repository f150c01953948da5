# SPDX-License-Identifier: BSD-3-Clause
# Makes a table, and the file that `json` names, of the demo's records. Fails
# if the plug-in did not keep its promise. The rule for the ratio of device to
# host, and why it is this one, is in docs/side-by-side.md. Wants test/common/figures.awk.

# "with size 8 device LATENCY BANDWIDTH STAGED host LATENCY BANDWIDTH STAGED
#  messages COUNT wrong COUNT registrations COUNT checksum HEX ratios RATIO..."
$2 == "size" {
    if ($1 == "with")
        sizes[++count] = $3
    latency[$1, $3]   = $5
    bandwidth[$1, $3] = $6
    staged[$1, $3]    = $7
    host_latency[$1, $3]   = $9
    host_bandwidth[$1, $3] = $10
    messages += $13
    wrong    += $15
    if ($1 == "with")
        estimate($3)
}

# "with counter NAME VALUE"
$2 == "counter" {
    counters[$1, $3] = $4
    if ($1 == "with")
        names[++name_count] = $3
}

# The median of the ratios in this record, and its interval.
function estimate(size,  n, i, sorted, found) {
    for (i = 21; i <= NF; ++i) {
        sorted[++n] = $i + 0
        raw[size] = raw[size] (n > 1 ? ", " : "") $i
    }
    pairs[size] = n + 0
    if (n == 0)
        return
    sort(sorted, n)
    ratio[size] = middle(sorted, n)
    interval(sorted, n, found)
    lower[size]    = found["lower"]
    upper[size]    = found["upper"]
    coverage[size] = found["coverage"]
}

# There is none of a run that was not made.
function tenth(value) { return (value == "") ? "-" : sprintf("%.1f", value) }

function row(size, latencies, bandwidths, copies) {
    printf "%9s | %-19s| %-49s | %s\n", size, latencies, bandwidths, copies
}

function line() {
    printf "----------+--------------------+--------------------------------"
    printf "-------------------+--------------------\n"
}

function table(  i, size) {
    printf "\n"
    row("", "latency, us", "bandwidth, MB/s", "staged by copies")
    row("", "device to device", "device to device   host to   device/host",
        "device to device")
    row("size", "   with   without", "    with  without     host   median, interval",
        "   with    without")
    line()
    for (i = 1; i <= count; ++i) {
        size = sizes[i]
        row(bytes(size),
            sprintf("%8.1f  %8s", latency["with", size],
                    tenth(latency["without", size])),
            sprintf("%8.1f %8s %8.1f    %.3f %.3f to %.3f",
                    bandwidth["with", size], tenth(bandwidth["without", size]),
                    host_bandwidth["with", size], ratio[size], lower[size],
                    upper[size]),
            sprintf("%8s   %8s", bytes(staged["with", size]),
                    (staged["without", size] == "") ?
                        "-" : bytes(staged["without", size])))
    }
    line()
}

function summary(  i, text) {
    for (i = 1; i <= name_count; ++i) {
        text = text sprintf("%s%s %d", (i > 1 ? ", " : ""), names[i],
                            counters["with", names[i]])
    }
    gsub(/_/, " ", text)
    print "Checked: every byte of " messages " messages; wrong: " wrong "."
    print "The plug-in counted: " text "."
    print ""
    print "Simulated: the GPU. Its memory is the host's, out of the CPU's reach."
    print "Real: UCX, Open MPI, rdma-core, the kernel's RDMA stack, the dma-bufs."
    print "Soft-RoCE moves the data with the CPU: what counts here are the bytes"
    print "staged and the ratio of device to host, not how fast it is. The interval"
    print "holds the median of all such ratios with a confidence of 95 % or more."
    print ""
}

# "shown": each interval is above the limit. "refuted": one is below it, or there
# are too few pairs for one, and the promise is broken. Else the noise does not
# allow to say. (Tests set `limit`, to another one than what is promised.)
function judge_ratios(least,  i, size, lowest, text) {
    verdict = "shown"
    lowest = ""
    for (i = 1; i <= count; ++i) {
        size = sizes[i]
        if (size < 2 ^ 20)
            continue
        # the one to show: what refutes it most, else what shows it least
        if (lowest == "" || (upper[size] < least ?
                             upper[size] < upper[lowest] :
                             upper[lowest] >= least &&
                                 lower[size] < lower[lowest]))
            lowest = size
        if (coverage[size] < 0.95 || upper[size] < least)
            verdict = "refuted"
        else if (verdict == "shown" && lower[size] < least)
            verdict = "undecided"
    }
    if (lowest == "")
        verdict = "refuted"
    text = sprintf("from 1 MiB on, device to device reaches %.2f of host to host",
                   least)
    if (verdict == "undecided")
        printf "?    %s: cannot be said,\n     the windows differ too much; " \
               "try again when less else runs\n", text
    else
        promise(verdict == "shown", text)
    if (lowest != "")
        printf "     (at %s: median of %d pairs %.3f, %.1f %% interval %.3f to " \
               "%.3f)\n", bytes(lowest), pairs[lowest], ratio[lowest],
               100 * coverage[lowest], lower[lowest], upper[lowest]
}

function judge(  i, size, copied) {
    copied = 0
    for (i = 1; i <= count; ++i) {
        size = sizes[i]
        if (size >= 2 ^ 20)
            copied += staged["with", size]
    }
    promise(count > 0 && messages > 0 && wrong == 0,
            "every message arrived unaltered")
    promise(counters["with", "registrations"] > 0,
            "the plug-in registered device memory")
    promise(copied == 0, "from 1 MiB on, with the plug-in: " \
                         (copied ? bytes(copied) : "0 bytes") " staged")
    judge_ratios(limit ? limit : 0.95)
}

function object(first, second, third) {
    return "{" first ", " second (third == "" ? "" : ", " third) "}"
}

function figures(name, size) {
    return (latency[name, size] == "") ? "null" :
        object(pair("latency_us", latency[name, size]),
               pair("bandwidth_mb_s", bandwidth[name, size]),
               pair("staged_bytes", staged[name, size]))
}

function ratios(size) {
    if (pairs[size] == 0)
        return "null"
    return "{" pair("pairs", pairs[size]) ", " pair("median", ratio[size]) ", " \
        pair("interval", "[" lower[size] ", " upper[size] "]") ", " \
        pair("coverage", sprintf("%.4f", coverage[size])) ",\n    " \
        pair("all", "[" raw[size] "]") "}"
}

function write_json(  i, size, sizes_text, counters_text) {
    for (i = 1; i <= count; ++i) {
        size = sizes[i]
        sizes_text = sizes_text (i > 1 ? ",\n  {" : "\n  {") \
            pair("size", size) ",\n   " \
            pair("with", figures("with", size)) ",\n   " \
            pair("without", figures("without", size)) ",\n   " \
            pair("host", object(pair("latency_us", host_latency["with", size]),
                                pair("bandwidth_mb_s",
                                     host_bandwidth["with", size]))) ",\n   " \
            pair("device_to_host_ratio", ratios(size)) "}"
    }
    for (i = 1; i <= name_count; ++i)
        counters_text = counters_text (i > 1 ? ", " : "") \
            pair(names[i], counters["with", names[i]])
    print "{" pair("sizes", "[" sizes_text "]") "," >json
    print " " pair("messages", messages + 0) ", " pair("wrong", wrong + 0) "," >json
    print " " pair("counters", "{" counters_text "}") "," >json
    print " " pair("simulated", "[\"GPU\"]") "," >json
    print " " pair("real", "[\"UCX\", \"Open MPI\", \"rdma-core\", " \
                            "\"kernel RDMA stack\", \"dma-buf\"]") "," >json
    print " " pair("ratio_of_0.95", "\"" verdict "\"") "," >json
    print " " pair("passed", broken ? "false" : "true") "}" >json
}

END {
    table()
    summary()
    judge()
    write_json()
    exit broken
}
