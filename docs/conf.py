"""The documentation as a site: `make docs` builds it into build/site."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

import django  # noqa: E402

django.setup()

import durable  # noqa: E402

project = "durable"
author = "The authors of durable"
release = version = durable.__version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["adr/000-template.md"]
html_theme = "furo"
html_title = f"durable {release}"
templates_path: list[str] = []
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
suppress_warnings = ["ref.python"]  # `activity` is a function of the package and a method of others

FILES = {"CONTRIBUTING.md": "contributing", "SECURITY.md": "security", "CHANGELOG.md": "changelog"}
"""Files beside the documentation that are pages of the site, too: a page of docs/project each."""

_OUTWARDS = re.compile(r"\]\((?P<up>(?:\.\./)*)(?P<file>[A-Z]+\.md)(?P<anchor>#[^)]*)?\)")
_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)


def links_of_the_site(app: Any, docname: str, source: list[str]) -> None:
    """Files beside the documentation become pages, and links to them lead there."""
    depth = docname.count("/")
    for name, page in FILES.items():
        if docname == f"project/{page}":
            text = (ROOT / name).read_text(encoding="utf-8")
            source[0] = re.sub(r"\]\((?:docs/)([^)]*)\)", r"](../\1)", text)

    def lead(match: re.Match[str]) -> str:
        page = FILES.get(match["file"])
        if page is None:  # the README: the site has a first page of its own
            return f"]({'../' * depth}index.md)"
        return f"]({'../' * depth}project/{page}.md{match['anchor'] or ''})"

    source[0] = _OUTWARDS.sub(lead, source[0])


def docstring_as_markdown(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written in Markdown: one backtick is code, and a star is a star."""
    text = "\n".join(lines)
    if "::\n" in text:  # a block of reStructuredText
        return
    pieces, end = [], 0
    for code in _CODE.finditer(text):
        pieces += [_plain(text[end : code.start()]), f"``{code[2].replace(chr(10), ' ')}``"]
        end = code.end()
    lines[:] = "".join([*pieces, _plain(text[end:])]).split("\n")


def _plain(text: str) -> str:
    return re.sub(r"([*|])", r"\\\1", re.sub(r"(\w)_(?=\W|$)", r"\1\\_", text))


def setup(app: Any) -> None:
    """Connect the two."""
    app.connect("source-read", links_of_the_site)
    app.connect("autodoc-process-docstring", docstring_as_markdown)
