# SPDX-License-Identifier: BSD-3-Clause
# Makes a table of the demo's records. Fails if the plug-in did not keep its promise.

# "with size 8 staged BYTES messages COUNT wrong COUNT"
$2 == "size" {
    if ($1 == "with")
        sizes[++count] = $3
    staged[$1, $3] = $5
    messages += $7
    wrong    += $9
}

# "with counter NAME VALUE"
$2 == "counter" && $1 == "with" {
    counters[$3] = $4
    text = text (text == "" ? "" : ", ") $3 " " $4
}

# There is none of a run that was not made.
function bytes(n) {
    if (n == "")      return "-"
    if (n == 0)       return "0"
    if (n >= 2 ^ 20)  return sprintf("%d MiB", n / 2 ^ 20)
    if (n >= 2 ^ 10)  return sprintf("%d KiB", n / 2 ^ 10)
    return n " B"
}

function row(size, with, without) { printf "%9s | %10s %10s\n", size, with, without }

function table(  i) {
    printf "\n%9s | %s\n", "", "staged by copies"
    row("size", "with", "without")
    print "----------+----------------------"
    for (i = 1; i <= count; ++i)
        row(bytes(sizes[i]), bytes(staged["with", sizes[i]]), bytes(staged["without", sizes[i]]))
    print "----------+----------------------"
}

function summary() {
    gsub(/_/, " ", text)
    print "Checked: every byte of " messages " messages; wrong: " wrong "."
    print "The plug-in counted: " text "."
    print ""
    print "Simulated: the GPU. Its memory is the host's, out of the CPU's reach."
    print "Real: UCX, Open MPI, rdma-core, the kernel's RDMA stack, the dma-bufs."
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
