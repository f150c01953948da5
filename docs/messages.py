# SPDX-License-Identifier: BSD-3-Clause
"""What the plug-in says to users, beside what docs/troubleshooting.md quotes.

usage: messages.py PAGE FOLDER...

The folders have C and C++. A quote of the PAGE is a block of lines that begin
with "> ", or text in double quotes in the first cell of a table's row; "..."
in it stands for what varies or is left out. Prints, a line each,
  invented: TEXT   a quote that is no text of the sources
  unquoted: TEXT   a warning, an error or a cause without a quote of its beginning
Ends with 1 if there is any.
"""
import pathlib
import re
import sys

LITERAL = r'"(?:[^"\\\n]|\\.)*"'
CALL = re.compile(r"\b(log_warn|log_error\)?|warn_once|warn|decline|say|"
                  r"fprintf|return failed|check_result|untested)\s*\(")
# Texts of some length in these files are causes that other files' warnings name.
PARTS = ("path/loopback.cc", "path/path_check.cc", "ucm/code_patch.cc", "ucm/announce.cc",
         "ucm/announce.h", "ucm/install.cc", "ucm/x86_64.cc", "loader/preload.c")
PART_LENGTH = 20
# A longer text is quoted by its beginning.
QUOTED_LENGTH = 24
CONVERSION = re.compile(r"%[-#0 +]*[0-9*]*(?:\.[0-9*]+)?(?:hh?|ll?|z|j|t)?[a-zA-Z]")


def without_comments(text):
    return re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/',
                  lambda found: found.group(1) or " ", text, flags=re.S)


def joined_literals(code):
    """Each literal, with those that follow it and the preprocessor joins."""
    macros = dict(re.findall(rf"# *define +(\w+) +({LITERAL})", code))
    code = re.sub(r"^ *#.*", "", code, flags=re.M)
    item = rf"(?:{LITERAL}|\b(?:{'|'.join(macros) or 'NONE'})\b)"
    for found in re.finditer(rf"{item}(?:\s+{item})*", code):
        parts = re.findall(rf"{LITERAL}|\w+", found.group())
        yield "".join(macros.get(part, part)[1:-1] for part in parts)


def unescaped(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), text)


def fragments(literal):
    """What of a format is always the same."""
    for part in CONVERSION.split(unescaped(literal)):
        part = " ".join(part.split())
        if len(part) > 5:
            yield part


def arguments(code, start):
    """The text between a call's parentheses."""
    depth, at = 1, start
    while depth and at < len(code):
        literal = re.compile(LITERAL).match(code, at)
        if literal:
            at = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        at += 1
    return code[start:at - 1]


def said(path, code):
    """Texts of warnings and errors."""
    for call in CALL.finditer(code):
        inside = arguments(code, call.end())
        if call.group(1) == "fprintf" and not inside.startswith("stderr"):
            continue
        if call.group(1) == "warn_once":  # the first argument is the cause
            inside = re.sub(rf"^\s*(?:format\([^()]*(?:\([^()]*\)[^()]*)*\)|[^,]*),", "",
                            inside, count=1)
        yield from joined_literals(inside)
    if str(path).endswith(PARTS):
        for literal in joined_literals(re.sub(r"log_(debug|info|trace)\([^;]*;", "", code)):
            if len(literal) >= PART_LENGTH and " " in literal.strip():
                yield literal


def is_made_of(text, known):
    """Whether it is a piece of what is known, or several that follow each other."""
    text = text.strip(" .,:()")
    if len(text) <= 5 or any(text in each for each in known):
        return True
    return any(text.startswith(each[-length:]) and is_made_of(text[length:], known)
               for each in known
               for length in range(min(len(each), len(text)), 5, -1)
               if text.startswith(each[-length:]))


def quotes(page):
    text = re.sub(r"\n> ?", " ", re.sub(r"(^|\n)> ", r"\1\0", page))
    for quote in re.findall(r"^\0(.*(?:\n\0.*)*)", text, flags=re.M):
        yield " ".join(quote.replace("\0", " ").replace("\n", " ").split())
    for cell in re.findall(r"^\| ([^|]*) \|", page, flags=re.M):
        yield from re.findall('"([^"]*)"', cell)


def main():
    page, folders = pathlib.Path(sys.argv[1]).read_text(), sys.argv[2:]
    known, wanted = set(), []
    for path in sorted(each for folder in folders for each in pathlib.Path(folder).rglob("*")):
        if path.suffix in (".c", ".cc", ".h"):
            code = without_comments(path.read_text())
            for literal in joined_literals(code):
                known.update(fragments(literal))
            for literal in said(path, code):
                if not literal.startswith(". "):  # goes on
                    wanted.extend(list(fragments(literal))[:1])
    quoted = list(quotes(page))
    bad = [f"invented: {part}" for quote in quoted
           for part in map(str.strip, quote.split("..."))
           if not is_made_of(part, known)]
    bad += [f"unquoted: {part}" for part in dict.fromkeys(wanted)
            if not any(part.lstrip(".: ")[:QUOTED_LENGTH].strip() in quote for quote in quoted)]
    print("\n".join(bad))
    return 1 if bad else 0


sys.exit(main())
