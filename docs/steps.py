#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""steps.py TRACE FUNCTION: the calls below the function that go from one file of src/ to another, as a tree.

TRACE is what valgrind's callgrind writes with --compress-strings=no --compress-pos=no. A function stands
below the function whose call reached it first. The log, the counters and the cache's trace are left out.
"""
import collections
import re
import sys

EVERYWHERE = re.compile(r"src/uct/ib_dmabuf/(report|ucx/log|ucx/ucs|stats/\w+)\.(cc|h)$")


def file_of(path):
    found = re.search(r"/(src/\S+\.cc)$", path or "")
    return found and found.group(1)


def plain(name):
    """A function's name without namespaces, arguments and what callgrind adds."""
    name = re.sub(r"'\d+$|\[[^]]*\]", "", name)
    name = re.sub(r"ucx_ib_dmabuf::|ucm::|\(anonymous namespace\)::", "", name)
    return re.sub(r"\(.*", "", re.sub(r"<.*?>", "", name)).split(" ")[-1]


def read(trace):
    """The functions that each function calls, by the line of the first call, and each function's file."""
    calls = collections.defaultdict(dict)
    files = {}
    place = caller = callee = callee_place = None
    line_number = 0 # in the caller's own file; a call in inlined code has that of what was before it
    with open(trace, encoding="utf-8") as lines:
        for line in lines:
            key, _, value = line.rstrip().partition("=")
            if key in ("fl", "fi", "fe"):
                place = value
            elif key == "fn":
                caller = value
                files.setdefault(caller, place)
                line_number = 0
            elif key in ("cfi", "cfl"):
                callee_place = value
            elif key == "cfn":
                callee = value
                files.setdefault(callee, callee_place or place)
                callee_place = None
            elif key[:1].isdigit():
                if place == files.get(caller):
                    line_number = int(key.split()[0])
                if callee:
                    before = calls[caller].get(callee, line_number)
                    calls[caller][callee] = min(before, line_number)
                    callee = None
    return {name: sorted(found, key=found.get) for name, found in calls.items()}, files


def show(trace, top):
    calls, files = read(trace)
    seen = set()

    def below(function, depth, inside):
        for callee in calls.get(function, ()):
            if callee in seen:
                continue
            seen.add(callee)
            found = file_of(files.get(callee))
            if not found or EVERYWHERE.match(found) or found == inside or plain(callee) == "log_event":
                below(callee, depth, inside)
                continue
            short = found.removeprefix("src/uct/ib_dmabuf/").removeprefix("src/")
            print(f"{'  ' * depth + plain(callee):<50} {short}")
            below(callee, depth + 1, found)

    below(top, 0, None)


show(*sys.argv[1:])
