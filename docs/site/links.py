# SPDX-License-Identifier: BSD-3-Clause
"""What of a site leads nowhere, or is loaded from elsewhere: links.py FOLDER

Looks at links, headings that they name, pictures, scripts and styles. Prints a line for each that is
lost, and ends with 1 if there is any. Of links to other hosts only the form is looked at.
"""
import html.parser
import pathlib
import re
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, file):
        super().__init__()
        self.names, self.links, self.loads = set(), [], []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        has = dict(attributes)
        self.names.update(filter(None, (has.get("id"), has.get("name"))))
        if "src" in has:
            self.loads.append(has["src"])
        if "href" in has:
            is_loaded = tag == "link" and ("stylesheet" in has.get("rel", "") or
                                           "icon" in has.get("rel", ""))
            (self.loads if is_loaded else self.links).append(has["href"])


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.pages = {file: Page(file) for file in sorted(folder.rglob("*.html"))}

    def why_lost(self, file, target, is_loaded):
        """Nothing, if what is there in the file leads to something."""
        parts = urllib.parse.urlsplit(target)
        if parts.scheme == "data" and is_loaded:
            return None
        if parts.scheme or parts.netloc:
            if is_loaded:
                return "is loaded from elsewhere"
            return None if parts.scheme == "https" and "." in parts.netloc else "is no https"
        if parts.path.startswith("/"):
            return "is not relative"
        there = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
        if not there.is_file() or self.folder not in there.parents:
            return "is not there"
        if parts.fragment and there in self.pages and \
                urllib.parse.unquote(parts.fragment) not in self.pages[there].names:
            return "has no such heading"
        return None

    def lost(self):
        found = [(file, target, is_loaded) for file, page in self.pages.items()
                 for targets, is_loaded in ((page.links, False), (page.loads, True))
                 for target in targets]
        for style in sorted(self.folder.rglob("*.css")):
            text = style.read_text(encoding="utf-8")
            found += [(style, "".join(target), True) for target in
                      re.findall(r"""url\(\s*["']?([^"')]+)|@import\s*["']([^"']+)""", text)]
        for file, target, is_loaded in found:
            why = self.why_lost(file, target, is_loaded)
            if why:
                yield f"{file.relative_to(self.folder)}: {target} {why}"


def main():
    site = Site(pathlib.Path(sys.argv[1]).resolve())
    lost = list(site.lost()) if site.pages else ["no page"]
    print("\n".join(lost))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
