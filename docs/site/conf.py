# SPDX-License-Identifier: BSD-3-Clause
"""The pages as a site ("make site"). Sphinx with MyST, as that reads Markdown as GitHub does; so a
page is written once, without anything that is only for here. MkDocs takes a list after a text, code
in a list, and the names of headings for something else."""
import os
import pathlib
import re

from docutils import nodes

SOURCES = pathlib.Path(__file__).resolve().parents[2]
# What the sidebar has; a page that is in none fails the build.
CHAPTERS = {
    "Use it": ("install", "guide", "settings", "info", "troubleshooting", "security"),
    "Compare": ("side-by-side", "comparison"),
    "Change it": ("architecture", "rcache", "events", "ucx-generations", "lab", "testing",
                  "../CONTRIBUTING"),
}

project = "ucx-ib-dmabuf"
version = re.search(r"AC_INIT\(\[[^]]*\], *\[([^]]*)\]",
                    (SOURCES / "configure.ac").read_text(encoding="utf-8")).group(1)
html_title = f"{project} {version}"
extensions = ["myst_parser"]
myst_heading_anchors = 4
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "docs/*.md"]
highlight_language = "none"
smartquotes = False
html_theme = "furo"
html_copy_source = False
html_show_copyright = False


def with_chapters(app, name, source):
    """The front page ends with what is in the sidebar only."""
    if name == root_doc:
        for chapter, pages in CHAPTERS.items():
            lines = "\n".join(os.path.normpath(f"docs/{page}") for page in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {chapter}\n\n{lines}\n```\n"


def as_path(app, env, node, content):
    """What is in the sources and no page is named by its path there."""
    target = (SOURCES / node["refdoc"]).parent / node["reftarget"]
    if not target.exists():
        return None
    path = os.path.relpath(target, SOURCES)
    return nodes.inline("", "", content, nodes.Text(" ("), nodes.literal("", path), nodes.Text(")"))


def without_script(app, page, template, context, tree):
    """Debian 12's Furo has one that no browser runs. Nothing but highlights would be its work."""
    context["script_files"] = [each for each in context["script_files"] if "furo" not in each]


def mend_style(app, exception):
    """Debian 12's Furo asks the server for a file of another package, and has lost what makes it
    follow the reader's choice of dark. PyPI's needs neither."""
    for name in "styles/furo.css", "pygments.css":
        file = pathlib.Path(app.outdir, "_static", name)
        text = re.sub(r"@import url\((/javascript/[^)]*)\);",
                      lambda found: pathlib.Path(f"/usr/share{found[1]}").read_text(),
                      file.read_text())
        dark = re.findall(r'^ *body\[data-theme="dark"\]( \.highlight[^{]*| )(\{[^}]*\})',
                          text, re.M)
        if dark and "prefers-color-scheme" not in text:
            rules = "\n".join(f'body:not([data-theme="light"]){each} {rule}' for each, rule in dark)
            text += f"\n@media (prefers-color-scheme: dark) {{\n{rules}\n}}\n"
        file.write_text(text)


def setup(app):
    app.connect("source-read", with_chapters)
    app.connect("missing-reference", as_path)
    app.connect("html-page-context", without_script)
    app.connect("build-finished", mend_style)
