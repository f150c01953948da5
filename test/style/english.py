#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print the sentences that are hard to read of comments, pages and manuals.

usage: english.py FILE...

It prints a sentence that begins with a clause or an "of ..." in place of its subject
("What was tried is ...", "Of what is not known ..."), one that calls a thread or a
library "he" or "who", and, behind them, one of more than 35 words. The last line of a
kind says how many there are. The status is 1 above 1 % of the sentences, 0.5 persons
in 1000 words, or if 5 % of the sentences have more than 30 words.
"""

import re
import sys

HEADLESS = re.compile(
    r"(What|Who|Whom|Whose|Whoever|Whatever|Where(?! (?:to|is|are)\b)|Of|Nobody|Somebody"
    r"|One|That which|Those|Neither)\b")
PERSON = re.compile(r"\b(who|whom|whose|whoever|nobody|somebody|anybody|he|him|his)\b", re.I)
WORD = re.compile(r"[A-Za-z']+")


def comments(text):
    """Each run of // lines, and each /* comment */."""
    for found in re.finditer(r"/\*.*?\*/|(?:^[ \t]*//[^\n]*\n)+|//[^\n]*", text, re.S | re.M):
        plain = re.sub(r"^[ \t]*(//+|/?\*+/?)|\*/", " ", found[0], flags=re.M)
        if not re.search("SPDX|NOLINT|clang-format", plain):
            yield plain


def paragraphs(text):
    """A page without its code, tables and headings."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"^(    |\||#|>).*$", "", text, flags=re.M)
    return re.split(r"\n\s*\n|\n(?=[*-] |\d+\. )", re.sub(r"`[^`]*`", "x", text))


def manual(text):
    """A manual's text, where a macro that names a thing is one word."""
    text = re.sub(r"^\.(?:Nm|Ar|Ev|Dq|Fl|Xr|Pa|Ql|Dv|Sq)\b.*?( [.,;:])?$", r"x\1", text, flags=re.M)
    text = re.sub(r"\n(x ?[.,;:]?)(?=\n)", r" \1", text)
    return re.split(r"\n\.[^\n]*", re.sub(r"x (?=[.,;:])", "x", text))


KINDS = {"comments": (comments, (".c", ".cc", ".h")),
         "pages": (paragraphs, (".md",)),
         "manuals": (manual, (".1", ".7"))}


def sentences(paragraph):
    plain = re.sub(r"\s+", " ", paragraph).strip(" *-")
    return [each for each in re.split(r"(?<=[.!?])\s+(?=[A-Z`(])", plain)
            if len(WORD.findall(each)) > 2]


def is_plain(kind, files):
    """Whether a kind keeps the limits."""
    split = KINDS[kind][0]
    words = count = headless = persons = long = 0
    for name in files:
        with open(name, encoding="utf-8") as file:
            text = file.read()
        for each in [one for part in split(text) for one in sentences(part)]:
            length = len(WORD.findall(each))
            found = len(PERSON.findall(each))
            is_headless = bool(HEADLESS.match(each.strip("(` ")))
            words, count, persons = words + length, count + 1, persons + found
            headless += is_headless
            long += length > 30
            if is_headless or found or length > 35:
                print(f"{name}: {each}")
    print(f"{kind}: {count} sentences, {headless} without a subject of their own, "
          f"{long} of more than 30 words; {words} words, {persons} persons")
    return (headless * 100 <= count and persons * 2000 <= words and long * 20 <= count)


def main(names):
    good = True
    for kind, (_, endings) in KINDS.items():
        files = [name for name in names if name.endswith(endings)]
        good = (not files or is_plain(kind, files)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
