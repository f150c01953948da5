# SPDX-License-Identifier: BSD-3-Clause
# Compares the results of tests without and with the plug-in, lines of results.awk. Each
# line of REASONS is a pattern of names, as gtest's filters have them, and why such tests
# fail with the plug-in only. Prints each difference; the status is 1 if no line explains
# one, or if a line explains nothing any more.
# usage: awk -f compare.awk REASONS WITHOUT WITH

function is_bad(result) { return result !~ /^(ok|skipped)$/ }

function counts(of,    i, text) {
    for (i = 1; i in kinds; ++i)
        if (of[kinds[i]])
            text = text (text ? ", " : "") of[kinds[i]] " " kinds[i]
    return text
}

BEGIN { split("ok skipped failed crashed timeout absent", kinds) }

FILENAME == ARGV[1] && /^[^#]/ {
    reason[++known] = substr($0, length($1) + 2)
    pattern[known] = $1
    gsub(/[.+()\[\]|^$]/, "\\\\&", $1)
    gsub(/[*?]/, ".&", $1)
    gsub(/[.][?]/, ".", $1)
    regex[known] = "^" $1 "$"
}
FILENAME == ARGV[1] { next }
!($2 in seen) { seen[$2]; names[++total] = $2 }
FILENAME == ARGV[2] { alone[$2] = $1; next }
{ with[$2] = $1 }

END {
    for (i = 1; i <= total; ++i) {
        name = names[i]
        before = (name in alone) ? alone[name] : "absent"
        after = (name in with) ? with[name] : "absent"
        ++without_counts[before]
        ++with_counts[after]
        worse = is_bad(after) && !is_bad(before)
        why = worse ? "NO REASON IS KNOWN" : "-"
        for (k = 1; k <= known; ++k)
            if (name ~ regex[k]) {
                ++met[k]
                explained[k] += worse
                why = reason[k]
            }
        unexplained += why ~ /^NO REASON/
        if (before != after && ++different)
            printf "%s: %s without, %s with: %s\n", name, before, after, why
    }
    for (k = 1; k <= known; ++k)
        if (met[k] && !explained[k] && ++outdated)
            printf "%s: LISTED, BUT FAILS NO LONGER: %s\n", pattern[k], reason[k]
    printf "%d tests; without: %s; with: %s; %d differ, %d without a reason, " \
        "%d reasons outdated\n", total, counts(without_counts), counts(with_counts),
        different, unexplained, outdated
    exit unexplained || outdated || !total
}
