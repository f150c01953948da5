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

function line() {
    printf "----------+--------------------+--------------------------------------+---------------------\n"
}

function table(  i, size) {
    printf "\n"
    printf "          | latency, us        | bandwidth, MB/s                      | staged by copies\n"
    printf "          | device to device   | device to device   host to  device/  | device to device\n"
    printf "     size |     with   without |     with  without     host     host  |     with    without\n"
    line()
    for (i = 1; i <= count; ++i) {
        size = sizes[i]
        printf "%9s | %8.1f  %8.1f | %8.1f %8.1f %8.1f     %s  | %8s   %8s\n",
               bytes(size), latency["with", size], latency["without", size],
               bandwidth["with", size], bandwidth["without", size],
               host_bandwidth["with", size],
               sprintf("%.2f", ratio["with", size]),
               bytes(staged["with", size]), bytes(staged["without", size])
    }
    line()
}

function summary(  i, text) {
    for (i = 1; i <= name_count; ++i) {
        text = text sprintf("%s%s %d", (i > 1 ? ", " : ""), names[i],
                            counters["with", names[i]])
    }
    gsub(/_/, " ", text)
    printf "Checked: every byte of %d messages, %d of them wrong.\n", messages, wrong
    printf "The plug-in's counters: %s.\n", text
    printf "\n"
    printf "Simulated: the GPU (its memory is the host's, out of the CPU's reach).\n"
    printf "Real:      UCX, Open MPI, rdma-core, the kernel's RDMA stack, the dma-bufs.\n"
    printf "Soft-RoCE moves the data with the CPU: what counts here are the bytes staged\n"
    printf "and the ratio of device to host, not how fast it is.\n\n"
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
    promise(count > 0 && messages > 0 && wrong == 0, "every message arrived unaltered")
    promise(counters["with", "registrations"] > 0, "the plug-in registered device memory")
    promise(copied == 0, "from 1 MiB on, with the plug-in: 0 bytes staged" \
            (copied ? ", but it were " bytes(copied) : ""))
    promise(copied_without > 0, "from 1 MiB on, without it: " bytes(copied_without) " staged")
    promise(lowest >= 0.95 && lowest < 10,
            sprintf("from 1 MiB on, device to device is at least 0.95 of host to host (lowest: %.3f)", lowest))
}

function figures(name, size) {
    return sprintf("{\"latency_us\":%s,\"bandwidth_mb_s\":%s,\"staged_bytes\":%s}",
                   latency[name, size], bandwidth[name, size], staged[name, size])
}

function write_json(  i, size) {
    printf "{\"sizes\":[" >json
    for (i = 1; i <= count; ++i) {
        size = sizes[i]
        printf "%s\n {\"size\":%s,\"with\":%s,\"without\":%s,", (i > 1 ? "," : ""),
               size, figures("with", size), figures("without", size) >json
        printf "\"host\":{\"latency_us\":%s,\"bandwidth_mb_s\":%s},\"device_to_host_ratio\":%s}",
               host_latency["with", size], host_bandwidth["with", size],
               ratio["with", size] >json
    }
    printf "],\n \"messages\":%d,\"wrong\":%d,\n \"counters\":{", messages, wrong >json
    for (i = 1; i <= name_count; ++i)
        printf "%s\"%s\":%s", (i > 1 ? "," : ""), names[i],
               counters["with", names[i]] >json
    printf "},\n \"simulated\":[\"GPU\"],\"real\":[\"UCX\",\"Open MPI\",\"rdma-core\",\"kernel RDMA stack\",\"dma-buf\"]," >json
    printf "\n \"passed\":%s}\n", broken ? "false" : "true" >json
}

END {
    table()
    summary()
    judge()
    write_json()
    exit broken
}
