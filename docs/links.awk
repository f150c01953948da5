# SPDX-License-Identifier: BSD-3-Clause
# The links in Markdown, one a line: "NUMBER TARGET"; with -v anchors=1 what its headings are
# called in a link, as GitHub has it, one a line. Code is neither.

function anchor(text,  count) {
    gsub(/\]\([^)]*\)/, "", text)
    text = tolower(text)
    gsub(/[^a-z0-9_ -]/, "", text)
    gsub(/ /, "-", text)
    count = seen[text]++
    return count ? text "-" count : text
}

/^ *```/ { fenced = !fenced; next }
fenced || (/^    / && (blank || code)) { code = 1; next }
{ blank = $0 == ""; code = code && blank }

/^#+ / {
    if (anchors) {
        sub(/^#+ +/, "")
        print anchor($0)
        next
    }
}

!anchors {
    gsub(/`[^`]*`/, "")
    while (match($0, /\]\([^()]*(\([^()]*\))?[^()]*\)|https?:[^ >)]*/)) {
        target = substr($0, RSTART, RLENGTH)
        rest = substr($0, RSTART + RLENGTH)
        if (sub(/^\]\(/, "", target)) {
            sub(/\)$/, "", target)
            sub(/ .*/, "", target)
        }
        sub(/[.,:;]$/, "", target)
        print FNR, target
        $0 = rest
    }
}
