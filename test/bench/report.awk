# SPDX-License-Identifier: BSD-3-Clause
# Turns bench_cache's CSV into the table of targets; with -v json=FILE writes
# the same as JSON.

# Nanoseconds an operation: benchmarks of a batch name its size.
/^"[^"]*_median"/ {
    name = $1
    gsub(/"|_median/, "", name)
    split(name, part, "/")
    count = part[3] + 0 > 0 ? part[3] : 1
    threads = name ~ /threads:2/ ? 2 : 1
    key = part[1] "/" part[2] "/" part[3] "/" part[4] "/" threads
    if (part[1] == "host" || part[1] == "unregistered") key = part[1]
    # Google Benchmark divides the elapsed time by the threads.
    ns[key] = (threads == 2 ? $3 * 2 : $4) / count
}
/^"memory\// {
    name = $1
    gsub(/"/, "", name)
    split(name, part, "/")
    bytes[part[2]] = $NF
}

# Against a limit, or a limit of the ratio to the peer; without either only shown.
function row(what, mine, peer, limit, ratio_limit,    ratio, verdict) {
    ratio = peer > 0 ? mine / peer : 0
    verdict = ""
    if (ratio_limit > 0) verdict = ratio <= ratio_limit ? "met" : "MISSED"
    if (limit > 0) verdict = mine <= limit ? "met" : "MISSED"
    printf "%-46s %9.1f", what, mine
    if (peer > 0) printf " %9.1f %6.2f", peer, ratio
    else printf " %9s %6s", "", ""
    if (ratio_limit > 0) printf " %8.2f", ratio_limit
    if (limit > 0) printf " %8.1f", limit
    printf "  %s\n", verdict
    if (json == "") return
    printf "%s\n  {\"what\": \"%s\", \"value\": %.3f", sep, what, mine >json
    if (peer > 0)
        printf ", \"ucs_rcache\": %.3f, \"ratio\": %.3f", peer, ratio >json
    if (ratio_limit > 0) printf ", \"target_ratio\": %.3f", ratio_limit >json
    if (limit > 0) printf ", \"target\": %.3f", limit >json
    if (verdict != "")
        printf ", \"met\": %s", verdict == "met" ? "true" : "false" >json
    printf "}" >json
    sep = ","
}

function pair(what, key, ratio_limit,    other) {
    other = key
    sub(/^[a-z]+\//, "&cache/", key)
    sub(/^[a-z]+\//, "&ucs_rcache/", other)
    row(what, ns[key], ns[other], 0, ratio_limit)
}

END {
    if (json != "") printf "[" >json
    printf "%-46s %9s %9s %6s %8s\n", "", "cache", "ucs_rcache", "ratio", "target"
    pair("hit and release, 1000 regions, ns", "hit/1000/2048K/1", 1 / 3)
    pair("the same, two threads, ns each", "hit/1000/2048K/2", 1 / 5)
    pair("random hits, 1000000 regions, ns", "hit/1000000/2048K/1", 1 / 2)
    pair("insert and invalidate, 1000000 regions, ns", "churn/1000000/2048K/1", 1)
    row("release of what was never registered, ns", ns["unregistered"], 0, 150, 0)
    row("lookup of host memory, ns", ns["host"], 0, 20, 0)
    row("memory per region, bytes", bytes["cache"], 0, 160, 0)
    print "regions of 64 KiB, several to a granule of 2 MiB (no target):"
    pair("64 KiB: hit and release, 1000 regions, ns", "hit/1000/64K/1", 0)
    pair("64 KiB: random hits, 1000000 regions, ns", "hit/1000000/64K/1", 0)
    pair("64 KiB: insert and invalidate, 1000000, ns", "churn/1000000/64K/1", 0)
    if (json != "") printf "\n]\n" >json
}
