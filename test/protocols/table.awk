# SPDX-License-Identifier: BSD-3-Clause
# Makes a table of what UCX prints about its choices (UCX_PROTO_INFO=y): the size from
# which on no protocol copies through host memory. With only=OPERATION,SPEED,y|n it is that
# one size.

BEGIN {
    split("EDR HDR NDR IPC", speeds, " ")
    name["EDR"] = "100 Gb/s"; name["HDR"] = "200 Gb/s"; name["NDR"] = "400 Gb/s"
    name["IPC"] = "one machine, `rc,cuda`"
    split("blocking send,send,active message,put,get", operations, ",")
}

# "SPEED WITH | tagged message by ucp_tag_send*(fast-completion) from cuda/GPU0 |"
/ by ucp_/ {
    operation = ""
    if (/host memory/)                           next
    if (/ucp_tag_send\*\(fast-completion\) /)    operation = "blocking send"
    else if (/ucp_tag_send\* /)                  operation = "send"
    else if (/ucp_am_send\* /)                   operation = "active message"
    else if (/ucp_put\* /)                       operation = "put"
    else if (/ucp_get\*(\(multi\))? /)                     operation = "get"
    else                                         next
    key = $1 SUBSEP $2 SUBSEP operation
    from[key] = 0
    next
}
/ cfg#| Range / { next }
/ (rendezvous|flush|fence|am_reply)[^|]*\|$/ { operation = ""; next }

# "SPEED WITH | 8248..273025 | multi-frag eager zero-copy copy-out | rc_verbs/rxe0:1 |"
operation != "" && split($0, cells, "|") >= 4 && /copy-in|copy-out|fragmented|cuda_copy/ {
    end = cells[2]
    sub(/.*\.\./, "", end)
    from[key] = (end ~ /inf/) ? "always" : bytes(end) + 1
}

function bytes(text) {
    if (text ~ /K/) return text * 1024
    if (text ~ /M/) return text * 1048576
    return text + 0
}

# UCX prints no table for an operation that another one has chosen for.
function cell(speed, with, operation,    key) {
    key = speed SUBSEP with SUBSEP operation
    return (key in from) ? from[key] : "-"
}

END {
    if (only != "") {
        split(only, one, ",")
        print cell(one[2], one[3], one[1])
        exit
    }
    head = "| link | |"; line = "| --- | --- |"
    for (i = 1; i in operations; ++i) {
        head = head " " operations[i] " |"; line = line " --- |"
    }
    print head; print line
    for (s = 1; s in speeds; ++s)
        for (with = 0; with < 2; ++with) {
            row = "| " (with ? "" : name[speeds[s]]) " | " (with ? "plug-in" : "UCX alone") " |"
            for (i = 1; i in operations; ++i)
                row = row " " cell(speeds[s], with ? "y" : "n", operations[i]) " |"
            print row
        }
}
