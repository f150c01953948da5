# SPDX-License-Identifier: BSD-3-Clause
# Makes a table of the demo's records. Fails if the plug-in did not keep its promise.

# "with size 8 device LATENCY BANDWIDTH STAGED host LATENCY BANDWIDTH STAGED
#  messages COUNT wrong COUNT"
$2 == "size" {
    if ($1 == "with")
        sizes[++count] = $3
    latency[$1, $3]   = $5
    bandwidth[$1, $3] = $6
    staged[$1, $3]    = $7
    host_bandwidth[$1, $3] = $10
    messages += $13
    wrong    += $15
}

# "with counter NAME VALUE"
$2 == "counter" && $1 == "with" {
    counters[$3] = $4
    names[++name_count] = $3
}

function bytes(n) {
    if (n == "")      return "-"
    if (n == 0)       return "0"
    if (n >= 2 ^ 20)  return sprintf("%d MiB", n / 2 ^ 20)
    if (n >= 2 ^ 10)  return sprintf("%d KiB", n / 2 ^ 10)
    return n " B"
}

# There is none of a run that was not made.
function tenth(value) { return (value == "") ? "-" : sprintf("%.1f", value) }

function row(size, latencies, bandwidths, copies) {
    printf "%9s | %-19s| %-28s | %s\n", size, latencies, bandwidths, copies
}

function line() {
    printf "----------+--------------------+------------------------------+--------------------\n"
}

function table(  i, size) {
    printf "\n"
    row("", "latency, us", "bandwidth, MB/s", "staged by copies")
    row("", "device to device", "device to device    host to", "device to device")
    row("size", "   with   without", "    with  without       host", "   with    without")
    line()
    for (i = 1; i <= count; ++i) {
        size = sizes[i]
        row(bytes(size),
            sprintf("%8s  %8s", tenth(latency["with", size]),
                    tenth(latency["without", size])),
            sprintf("%8s %8s   %8s", tenth(bandwidth["with", size]),
                    tenth(bandwidth["without", size]), tenth(host_bandwidth["with", size])),
            sprintf("%8s   %8s", bytes(staged["with", size]),
                    bytes(staged["without", size])))
    }
    line()
}

function summary(  i, text) {
    for (i = 1; i <= name_count; ++i)
        text = text (i > 1 ? ", " : "") names[i] " " counters[names[i]]
    gsub(/_/, " ", text)
    print "Checked: every byte of " messages " messages; wrong: " wrong "."
    print "The plug-in counted: " text "."
    print ""
    print "Simulated: the GPU. Its memory is the host's, out of the CPU's reach."
    print "Real: UCX, Open MPI, rdma-core, the kernel's RDMA stack, the dma-bufs."
    print "Soft-RoCE moves the data with the CPU: what counts here are the bytes"
    print "staged, not how fast it is."
    print ""
}

# A line of the verdict; one that is not kept leaves `broken` set.
function promise(kept, text) {
    printf "%s  %s\n", kept ? "yes" : "NO ", text
    if (!kept)
        broken = 1
}

function judge(  i, copied) {
    copied = 0
    for (i = 1; i <= count; ++i)
        if (sizes[i] >= 2 ^ 16)
            copied += staged["with", sizes[i]]
    promise(count > 0 && messages > 0 && wrong == 0, "every message arrived unaltered")
    promise(counters["registrations"] > 0, "the plug-in registered device memory")
    promise(copied == 0, "from 64 KiB on, with the plug-in: " \
                         (copied ? bytes(copied) : "0 bytes") " staged")
}

END {
    table()
    summary()
    judge()
    exit broken + 0
}
