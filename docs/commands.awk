# SPDX-License-Identifier: BSD-3-Clause
# The commands in Markdown, one a line: each line of a code block, and in the
# text what looks like a command with an argument. Without the prompt, a comment
# behind it, and the breaks of long lines.
function command(text) {
    sub(/^\$ /, "", text)
    sub(/  +#.*/, "", text)
    gsub(/[ \t]+/, " ", text)
    sub(/ $/, "", text)
    if (text != "" && text !~ /^# /)
        print text
}

# Words that nobody begins a line with that is not a command.
function looks_like_command(text) {
    sub(/^\$ /, "", text)
    while (text ~ /^[A-Z_]+=[^ ]* /)
        sub(/^[A-Z_]+=[^ ]* /, "", text)
    return text ~ /^(\.\/[a-z]|make |mpirun |sudo |apt|git |sysctl |test\/[^ ]+ )/
}

function inline_commands(text,  parts, count, i) {
    count = split(text, parts, "`")
    for (i = 2; i <= count; i += 2) {
        if (parts[i] ~ / / && looks_like_command(parts[i]))
            command(parts[i])
    }
}

broken != "" {
    sub(/^ +/, "")
    $0 = broken $0
    broken = ""
}

/^```/ { fenced = !fenced; next }

/^ *[^ ].*\\$/ && (/^    / || fenced) {
    broken = substr($0, 1, length($0) - 1)
    next
}

# What is indented further belongs to the line above, or to a list.
fenced || /^    [^ ]/ { command(substr($0, fenced ? 1 : 5)); next }
/^     / {
    sub(/^ +/, "")
    if (looks_like_command($0))
        command($0)
    next
}

# A command may go over the end of a line in the text.
{
    text = text " " $0
    if (gsub(/`/, "`", text) % 2 == 0 || $0 == "") {
        inline_commands(text)
        text = ""
    }
}
