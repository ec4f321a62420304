"""Every text of the admin goes through Django's functions: none is written into a template or a module as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.languages import texts
from tests.languages.texts import APP, Text

_BLOCK = re.compile(r"\{% blocktranslate.*?%\}.*?\{% endblocktranslate %\}", re.DOTALL)
_CLASSES = re.compile(r"\{% block bodyclass %\}.*?\{% endblock %\}", re.DOTALL)
_TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_SHOWN = re.compile(r"""\b(?:aria-label|placeholder|title|alt|label|data-label)=(?:"([^"]*)"|'([^']*)')""")
_ELEMENT = re.compile(r"<[^>]*>")
_EXAMPLES = {'{"ok": true}'}
"""Attributes that show what JSON looks like."""

_WORDY = re.compile(r"[A-Za-z]{2,}[,.:;]? [A-Za-z]|^[A-Z][a-z]+$")
_FORMATTED = re.compile(r"<[^>]*>|\{[^}]*\}|%\(\w+\)s")

STORED_IN_ENGLISH = {
    "outbox.py": {"outbox row"},
    "room.py": {"dead letter"},
    "work_items.py": {"work item"},
    "verbs.py": {"Terminated", "Paused", "Resumed", "Unblocked", "Cancelled", "Cancellation requested"},
}
"""What is written to the audit and to Django's log, which have one language."""

NOT_SHOWN = {"filters.py": {"Filter"}, "downloads.py": {"text/plain; charset=utf-8"}}

LABELLED = {"Fact", "Facts", "Table", "Text", "Button", "badge"}
"""What shows its first argument."""

NAMED = {"title", "empty_text", "search_help_text", "verbose_name", "verbose_name_plural", "description", "label"}
"""Attributes and keywords that are shown."""


def texts_left_in(source: str) -> list[str]:
    """What a template says without asking for a translation."""
    plain = _TAG.sub("\0", _CLASSES.sub("\0", _BLOCK.sub("\0", source)))
    shown = [first or second for first, second in _SHOWN.findall(plain)]
    between = _ELEMENT.sub("\0", plain)
    return [
        found.strip()
        for text in [*shown, between]
        for found in text.split("\0")
        if re.search(r"[A-Za-z]{2,}", found.replace("&nbsp;", "")) and found.strip() not in _EXAMPLES
    ]


def untranslated(source: str, *, labels_only: bool = False) -> Iterator[str]:
    """What a module says without asking for a translation: sentences, and labels of one word."""
    tree = ast.parse(source)
    names = texts.aliases(tree)
    left_out = {id(node) for whole in ast.walk(tree) if _is_for_developers(whole, names) for node in ast.walk(whole)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            if not labels_only and _WORDY.search(_FORMATTED.sub("", node.value)):
                yield node.value
        elif isinstance(node, ast.Call) and _name(node.func) in LABELLED and node.args:
            yield from _constant(node.args[0])
        elif (isinstance(node, ast.keyword) and node.arg in NAMED) or (
            isinstance(node, ast.Assign) and _name(node.targets[0]) in NAMED
        ):
            yield from _constant(node.value)


def _is_for_developers(node: ast.AST, names: dict[str, str]) -> bool:
    """Or is translated already: exceptions, log lines, docstrings."""
    match node:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in names
        case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"))):
            return True
        case _:
            return False


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _constant(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"[A-Za-z]{2,}", node.value):
        yield node.value


def of_staff() -> list[Path]:
    """The modules whose texts staff read."""
    return sorted([*(APP / "admin").rglob("*.py"), *(APP / "templatetags").glob("*.py")])


@pytest.mark.parametrize("path", texts.templates(), ids=lambda path: path.relative_to(APP).as_posix())
def test_a_template_says_nothing_in_one_language(path: Path) -> None:
    assert texts_left_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", of_staff(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_says_nothing_in_one_language(path: Path) -> None:
    allowed = STORED_IN_ENGLISH.get(path.name, set()) | NOT_SHOWN.get(path.name, set())
    assert set(untranslated(path.read_text(encoding="utf-8"))) - allowed == set()


@pytest.mark.parametrize("path", [APP / "apps.py", *sorted((APP / "models").glob("*.py"))], ids=lambda path: path.name)
def test_the_names_of_the_app_and_its_models_can_be_translated(path: Path) -> None:
    """Their permissions cannot: migrations write these names into a table, for all languages."""
    assert list(untranslated(path.read_text(encoding="utf-8"), labels_only=True)) == []


@pytest.mark.parametrize(
    "source",
    ["<p>Nothing here.</p>", '<nav aria-label="Pages">{% translate "First" %}</nav>', "{{ count }} rows", "<b>go</b>"],
)
def test_a_text_in_a_template_is_found(source: str) -> None:
    assert texts_left_in(source)


@pytest.mark.parametrize(
    "source",
    [
        'return Said("This was done.")',
        'Fact("worker", 1)',
        'class F:\n    title = "workflow"',
        'admin.display(description="kind")',
        'wording.badge("late", "bad")',
        'format_html("{} and <b>more</b> of it", x)',
        'f"{count} were refused"',
    ],
)
def test_a_text_in_a_module_is_found(source: str) -> None:
    assert list(untranslated(source))


def test_texts_are_found_in_python_and_in_templates() -> None:
    python = (
        "from django.utils.translation import gettext as _, npgettext_lazy, ngettext\n"
        '_("a" "b"); ngettext("one", "many", n); npgettext_lazy("of what", "one", "many", "n")'
    )
    assert texts.of_python(python) == [Text("ab"), Text("one", "", "many"), Text("one", "of what", "many")]
    template = (
        '{% load i18n %}{% translate "It’s (so)" context "of what" %}{% blocktranslate count n=rows %}{{ n }} row'
        "{% plural %}{{ n }} rows{% endblocktranslate %}"
    )
    assert texts.of_template(template) == [Text("It’s (so)", "of what"), Text("%(n)s row", "", "%(n)s rows")]


def test_no_text_is_put_together_before_it_is_translated() -> None:
    """`gettext` finds only what stands in the code as it is; `literal_eval` refuses everything else."""
    with pytest.raises(ValueError, match="malformed"):
        texts.of_python('from django.utils.translation import gettext as _\n_("a" + name)')
