"""Prose uses the words of the field: what patterns can hold, in the pages, the templates and the texts of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "000-template.md"),
]
TEMPLATES = sorted((ROOT / "durable/templates").rglob("*.html"))

NOT_IN_PROSE = {
    "cannot": re.compile(r"\b[Cc]an not\b"),
    "after, later than": re.compile(r"\b(?:right|long|seconds?|minutes?|milliseconds?) behind\b"),
    "does not … any longer": re.compile(r"\b(?:is|are|does|do|was|were) not (?:\w+ ){1,4}any more\b"),
    "expired": re.compile(r"\bleases? (?:has |have |had )?(?:run|ran) out\b"),
    "heartbeat": re.compile(r"\bsigns? of life\b"),
    "recover deliveries whose worker died": re.compile(r"\blet fall\b"),
    "the workflow has moved on": re.compile(r"\bgone on without\b"),
    "optional": re.compile(r"\bcan stay empty\b"),
    "again": re.compile(r"\banew\b"),
}
"""What to say, and what not to."""


def words(text: str) -> str:
    """A text without its code and its line breaks."""
    text = re.sub(r"```.*?```", " ", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"`[^`\n]*`", "`…`", text))


def found_in(where: str, text: str) -> list[str]:
    return [
        f"{where}: {match.group()!r}, but: {instead}"
        for instead, pattern in NOT_IN_PROSE.items()
        for match in pattern.finditer(words(text))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_say_it_as_the_field_does(page: Path) -> None:
    assert found_in(page.name, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_say_it_as_the_field_does(template: Path) -> None:
    assert found_in(template.name, template.read_text(encoding="utf-8")) == []
