"""The documentation as a site has every page, and is built from what is pinned."""

from __future__ import annotations

import re

import durable
from tests.architecture.source import ROOT
from tests.screenshots.pages import HEIGHTS

DOCS = ROOT / "docs"


def test_every_page_is_on_the_site() -> None:
    """In one of the lists of `docs/index.md`: Sphinx fails for a page that nothing leads to."""
    listed = set(re.findall(r"^([a-z][\w/-]*)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert {page for page in pages - listed - {"index"} if not page.startswith("adr/")} == set()
    assert listed - pages == set()


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    text = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\.\. auto\w+:: (?:[\w.]+\.)?(\w+)$", text, re.MULTILINE))
    assert set(durable.__all__) - {"__version__"} - named == set()


def test_the_build_of_the_site_fails_for_a_warning() -> None:
    for name in ("Makefile", ".ci/run"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.search(r"sphinx-build .*-W .*docs ", text), name
        assert "requirements/docs.txt" in text, name


def test_the_pictures_of_the_pages_are_those_that_the_script_takes() -> None:
    taken = {f"images/admin-{name}.png" for name in HEIGHTS}
    shown = {
        target
        for path in DOCS.glob("*.md")
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
    }
    assert shown == taken
    assert {f"images/{path.name}" for path in (DOCS / "images").iterdir()} == taken


def test_what_builds_the_site_has_the_versions_of_the_suite() -> None:
    """Both are installed into one environment."""
    pinned = [
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / name).read_text(encoding="utf-8"), re.MULTILINE))
        for name in ("docs.txt", "development.txt")
    ]
    both = pinned[0].keys() & pinned[1].keys()
    assert both
    assert {name: pinned[0][name] for name in both} == {name: pinned[1][name] for name in both}
