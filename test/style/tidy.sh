#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# clang-tidy over one file, unless it has passed just as it is: then a stamp in
# UCX_IB_DMABUF_CACHE, where that is set, says so.
# usage: tidy.sh FILE COMPILER_OPTION...
set -uo pipefail

file=$1
shift

# The stamp's name is a hash of all that clang-tidy sees: itself, its settings for the
# file, the options, what the preprocessor makes of it and, as there are neither
# comments nor macros in that, each file that it reads. Fails where there is no
# knowing.
stamp_of() {
    local read
    read=$(clang++ -M -MT x "$@" "$file" 2>/dev/null) || return
    {
        clang-tidy --version && clang-tidy --dump-config "$file" -- "$@" &&
            printf '%s\n' "$file" "$@" &&
            clang++ -E "$@" "$file" &&
            sed 's/^x://; s/\\$//' <<<"$read" | xargs sha256sum
    } 2>/dev/null | sha256sum | cut -d ' ' -f 1
}

stamps=${UCX_IB_DMABUF_CACHE:+$UCX_IB_DMABUF_CACHE/tidy} stamp=
if [ -n "$stamps" ] && mkdir -p "$stamps" && sum=$(stamp_of "$@"); then
    stamp=$stamps/$sum
    if [ -e "$stamp" ]; then
        touch "$stamp"
        exit 0
    fi
fi

output=$(clang-tidy --quiet "$file" -- "$@" 2>&1)
status=$?
printf '%s\n' "$output" | grep -v 'warnings generated'
if [ "$status" = 0 ] && ! grep -qE '(error|warning): ' <<<"$output"; then
    # unless it was changed meanwhile
    [ -z "$stamp" ] || [ "$(stamp_of "$@")" != "$sum" ] || touch "$stamp"
    exit 0
fi
echo "clang-tidy: status $status"
exit 1
