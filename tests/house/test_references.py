"""References lead somewhere: to a rule of the specification, to a fault, to a file that is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

INTERNALS = ROOT / "docs" / "internals"
NUMBER = r"[A-Z]\d+(?:\.\d+)?"
NAMED = re.compile(rf"\b([Ss]pecification|[Ff]aults)\s+({NUMBER}(?:(?:, and|,| and| to)\s+{NUMBER})*)")

ELSEWHERE = re.compile(r"\b(?:SPEC|DESIGN|STYLE|BUGLOG|LANGUAGE|ANCHORS)\b")
"""Documents that stand in no repository."""


def page(name: str) -> str:
    return (INTERNALS / name).read_text(encoding="utf-8")


def rules() -> set[str]:
    """The headings (A2) and the cases and gates in bold (A5.1)."""
    text = page("specification.md")
    return set(re.findall(r"^(?:### |- \*\*)([AB]\d+(?:\.\d+)?)\b", text, re.MULTILINE))


def faults() -> list[str]:
    return re.findall(r"^\| ([A-Z]\d+) \|", page("faults.md"), re.MULTILINE)


def named(text: str) -> set[tuple[str, str]]:
    """Every (page, number) that a text refers to."""
    return {(kind.lower(), number) for kind, those in NAMED.findall(text) for number in re.findall(NUMBER, those)}


def texts() -> dict[str, str]:
    """The tracked files that are text, but for this one. Skips where there is no checkout."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("This is no checkout.")
    found = {}
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and path != Path(__file__).resolve():
            try:
                found[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    return found


def test_every_rule_and_fault_that_is_named_exists() -> None:
    there = {("specification", number) for number in rules()} | {("faults", number) for number in faults()}
    lost = {f"{name}: {kind} {number}" for name, text in texts().items() for kind, number in named(text) - there}
    assert lost == set()


def test_no_reference_leads_out_of_the_repository() -> None:
    assert {name: ELSEWHERE.findall(text) for name, text in texts().items() if ELSEWHERE.search(text)} == {}


def test_a_test_that_the_internals_name_names_the_rule() -> None:
    """Both ways, so that neither a page nor a docstring can speak of what has moved."""
    sections = [
        ("specification", part) for part in re.split(r"^### ", page("specification.md"), flags=re.MULTILINE)[1:]
    ]
    sections += [("faults", line[2:]) for line in page("faults.md").splitlines() if re.match(r"\| [A-Z]\d", line)]
    lost = set()
    for kind, text in sections:
        number = re.match(NUMBER, text)[0]  # type: ignore[index]
        for place in re.findall(r"`(tests/[\w/.]+)`", text):
            said = named((ROOT / place).read_text(encoding="utf-8"))
            if not any(said_of == kind and f"{said_number}.".startswith(f"{number}.") for said_of, said_number in said):
                lost.add(f"{place}: {kind} {number}")
    assert lost == set()


def test_every_file_that_the_internals_name_exists() -> None:
    for path in INTERNALS.glob("*.md"):
        places = re.findall(r"`((?:tests|durable)/[\w/.]*)`", path.read_text(encoding="utf-8"))
        assert places, path
        assert [place for place in places if not (ROOT / place).exists()] == [], path


def test_every_rule_and_every_fault_names_a_test() -> None:
    sections = re.split(r"^### ", page("specification.md"), flags=re.MULTILINE)[1:]
    assert [section.splitlines()[0] for section in sections if "`tests/" not in section] == []
    rows = [line for line in page("faults.md").splitlines() if re.match(r"\| [A-Z]\d", line)]
    assert [row for row in rows if "`tests/" not in row] == []
    assert len(rows) == len(set(faults()))


def test_all_numbers_of_a_reference_are_read() -> None:
    assert named("Faults D3; specification A2 to A6, B6, and B9.14: a") == {
        ("faults", "D3"), *(("specification", number) for number in ("A2", "A6", "B6", "B9.14"))
    }  # fmt: skip
    assert len(rules()) > 40
