"""Prose uses the words of the field: what patterns can hold, in the pages, the templates and the texts of the code."""

from __future__ import annotations

import ast
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


AN_ORDER = re.compile(
    r"(Abandon|Acknowledge|Add|Append|Ask|Await|Begin|Build|Call|Cancel|Catch|Change|Check|Claim|Clear|"
    r"Close|Compare|Continue|Count|Create|Decode|Delete|Discard|Do|Drain|Drop|Emit|Encode|End|Enqueue|"
    r"Extend|Fail|Fetch|Find|Forget|Freeze|Get|Give|Hand|Hold|Import|Insert|Judge|Keep|Leave|Let|Load|Lock|"
    r"Log|Look|Make|Mark|Measure|Mention|Move|Notify|Parse|Pause|Plan|Poll|Postpone|Print|Put|Raise|Read|"
    r"Reconcile|Record|Redrive|Refuse|Register|Release|Remove|Renew|Reopen|Replay|Restart|Resume|Retry|"
    r"Return|Run|Save|Say|Schedule|Send|Set|Settle|Show|Signal|Skip|Soak|Split|Stage|Stamp|Start|Stop|"
    r"Store|Supervise|Take|Tell|Terminate|Throw|Unblock|Update|Use|Wait|Wake|Watch|Wrap|Write)\b"
)


def test_docstrings_of_functions_say_what_they_do_in_the_indicative() -> None:
    """It is "Returns …", and not "Return …": the docstring describes the function, and orders nobody."""
    orders = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {text.splitlines()[0]}"
        for file in sorted((ROOT / "durable").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node))
        if AN_ORDER.match(text)
    ]
    assert orders == []
