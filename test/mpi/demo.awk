# SPDX-License-Identifier: BSD-3-Clause
# Makes a table, and the file that `json` names, of the demo's records. Fails
# if the plug-in did not keep its promise.

# "with size 8 device LATENCY BANDWIDTH STAGED host LATENCY BANDWIDTH STAGED
#  ratio RATIO messages COUNT wrong COUNT"
$2 == "size" {
    if ($1 == "with")
        sizes[++count] = $3
    latency[$1, $3]   = $5
    bandwidth[$1, $3] = $6
    staged[$1, $3]    = $7
    host_latency[$1, $3]   = $9
    host_bandwidth[$1, $3] = $10
    ratio[$1, $3]     = $13
    messages += $15
    wrong    += $17
}

# "with counter NAME VALUE"
$2 == "counter" {
    counters[$1, $3] = $4
    if ($1 == "with")
        names[++name_count] = $3
}

function bytes(n) {
    if (n == 0)        return "0"
    if (n >= 2 ^ 30)   return sprintf("%.1f GiB", n / 2 ^ 30)
    if (n >= 2 ^ 20)   return sprintf("%d MiB", n / 2 ^ 20)
    if (n >= 2 ^ 10)   return sprintf("%d KiB", n / 2 ^ 10)
    return n " B"
}

function row(size, latencies, bandwidths, copies) {
    printf "%9s | %-19s| %-36s | %s\n", size, latencies, bandwidths, copies
}

function line() {
    printf "----------+--------------------+--------------------------------"
    printf "------+--------------------\n"
}

function table(  i, size) {
    printf "\n"
    row("", "latency, us", "bandwidth, MB/s", "staged by copies")
    row("", "device to device", "device to device   host to   device/",
        "device to device")
    row("size", "   with   without", "    with  without     host      host",
        "   with    without")
    line()
    for (i = 1; i <= count; ++i) {
        size = sizes[i]
        row(bytes(size),
            sprintf("%8.1f  %8.1f", latency["with", size],
                    latency["without", size]),
            sprintf("%8.1f %8.1f %8.1f     %.3f", bandwidth["with", size],
                    bandwidth["without", size], host_bandwidth["with", size],
                    ratio["with", size]),
            sprintf("%8s   %8s", bytes(staged["with", size]),
                    bytes(staged["without", size])))
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
    print "staged and the ratio of device to host, not how fast it is."
    print ""
}

function promise(kept, text) {
    printf "%s  %s\n", kept ? "yes" : "NO ", text
    if (!kept)
        broken = 1
}

function judge(  i, size, copied, copied_without, lowest) {
    lowest = 10
    for (i = 1; i <= count; ++i) {
        size = sizes[i]
        if (size < 2 ^ 20)
            continue
        copied += staged["with", size]
        copied_without += staged["without", size]
        if (ratio["with", size] < lowest)
            lowest = ratio["with", size]
    }
    promise(count > 0 && messages > 0 && wrong == 0,
            "every message arrived unaltered")
    promise(counters["with", "registrations"] > 0,
            "the plug-in registered device memory")
    promise(copied == 0, "from 1 MiB on, with the plug-in: " \
                         (copied ? bytes(copied) : "0 bytes") " staged")
    promise(copied_without > 0, "from 1 MiB on, without it: " \
                                bytes(copied_without) " staged")
    promise(lowest >= 0.95 && lowest < 10,
            sprintf("from 1 MiB on, device to device reaches 0.95 of host to " \
                    "host (lowest: %.3f)", lowest))
}

function pair(name, value) {
    return "\"" name "\": " value
}

function object(first, second, third) {
    return "{" first ", " second (third == "" ? "" : ", " third) "}"
}

function figures(name, size) {
    return object(pair("latency_us", latency[name, size]),
                  pair("bandwidth_mb_s", bandwidth[name, size]),
                  pair("staged_bytes", staged[name, size]))
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
            pair("device_to_host_ratio", ratio["with", size]) "}"
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
    print " " pair("passed", broken ? "false" : "true") "}" >json
}

END {
    table()
    summary()
    judge()
    write_json()
    exit broken
}
