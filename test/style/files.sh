# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the checks of the sources: which files there are.
# shellcheck shell=bash

. "$top_srcdir/test/tap/tap.sh"
cd "$top_srcdir" || exit

# files NAME...: our files with a name like one of these, from the top.
files() {
    local name names=()
    for name; do
        names+=(-o -name "$name")
    done
    find . -type d \( -name .git -o -name 'autom4te.cache' -o -name aux \
              -o -path "./${top_builddir#"$top_srcdir"/}" \) -prune -o \
         -type f \( -false "${names[@]}" \) ! -name 'config.h*' \
         ! -name '*_config.h*' -printf '%P\n' | sort
}

# Our scripts: by name, or by their first line.
scripts() {
    {
        files '*.sh' '*.tap' '*.lab'
        files '[!.]*' '.?*' | grep -vE '(^|/)(configure|config\.|libtool)' |
            xargs awk 'FNR == 1 && /^#!.*sh$/ { print FILENAME } { nextfile }'
    } | sort -u
}

# passes_on NAME LIST COMMAND...: one result; passes if the command, given the
# files of the list, does, and the list is not empty. If not, only what it says is shown.
passes_on() {
    local name=$1 list=$2
    shift 2
    if [ -z "$list" ]; then
        nok "$name (no files found)"
    else
        check "$name ($(wc -w <<<"$list") files)" with_list "$@"
    fi
}

# shellcheck disable=SC2086
with_list() { "$@" $list; }

# What they find differs from one version to the next; the sources are as Debian 12's
# version wants them.
is_the_clang() { clang-format --version | grep -q 'version 14\.'; }
