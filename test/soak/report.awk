# SPDX-License-Identifier: BSD-3-Clause
# Adds up the records of a soak: "NAME|MESSAGES BYTES WRONG STAGED REGISTRATIONS
# INVALIDATIONS EVICTIONS FAILURES LEAKS FAILED". Status 1 if anything was wrong.
BEGIN { FS = "|" }

{
    if (!($1 in runs))
        names[++count] = $1
    ++runs[$1]
    columns = split($2, values, " ")
    if (columns != 10)
        malformed = 1
    for (i = 1; i <= columns; ++i) {
        sum[$1, i] += values[i]
        total[i] += values[i]
    }
}

function row(name, run, a, b, c, d, e, f, g, h, i, j) {
    printf "%-24s %5s %9s %9s %6s %9s %9s %9s %9s %9s %6s %6s\n", name, run, a,
        b, c, d, e, f, g, h, i, j
}

function mega(n) { return sprintf("%.1f", n / 1e6) }

END {
    row("", "runs", "messages", "MB", "wrong", "MB", "regis-", "invali-",
        "evic-", "failures", "open", "failed")
    row("", "", "", "", "", "staged", "trations", "dations", "tions",
        "injected", "files", "")
    for (n = 1; n <= count; ++n) {
        name = names[n]
        row(name, runs[name], sum[name, 1], mega(sum[name, 2]), sum[name, 3],
            mega(sum[name, 4]), sum[name, 5], sum[name, 6], sum[name, 7],
            sum[name, 8], sum[name, 9], sum[name, 10])
        all += runs[name]
    }
    row("all", all + 0, total[1] + 0, mega(total[2]), total[3] + 0,
        mega(total[4]), total[5] + 0, total[6] + 0, total[7] + 0, total[8] + 0,
        total[9] + 0, total[10] + 0)
    bad = malformed || total[1] == 0 || total[3] || total[9] || total[10]
    print bad ? "soak: FAILED" : "soak: passed"
    exit bad
}
