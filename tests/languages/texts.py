"""Finds every text that can be translated: in Python by its syntax tree, in templates by Django's own tool."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from django.utils.translation.template import templatize

from tests.architecture.source import ROOT

APP = ROOT / "durable"

PARTS = {
    "gettext": ("text",),
    "ngettext": ("text", "plural"),
    "pgettext": ("context", "text"),
    "npgettext": ("context", "text", "plural"),
}
"""What the first arguments of each function of Django are."""

_CALL = re.compile(r"\b(?:n|p|np)?gettext\(")


@dataclass(frozen=True, slots=True, order=True)
class Text:
    """One text that can be translated. `plural` and `context` are empty where there is none."""

    text: str
    context: str = ""
    plural: str = ""


def of_the_app() -> dict[Text, list[str]]:
    """All texts of the app, each with the files in which it stands."""
    found: dict[Text, list[str]] = {}
    for path in sorted(APP.rglob("*")):
        if path.suffix not in (".py", ".html") or "migrations" in path.parts:
            continue
        name = path.relative_to(ROOT).as_posix()
        source = path.read_text(encoding="utf-8")
        for text in of_python(source) if path.suffix == ".py" else of_template(source, name):
            files = found.setdefault(text, [])
            if name not in files:
                files.append(name)
    return _without_doubles(found)


def _without_doubles(found: dict[Text, list[str]]) -> dict[Text, list[str]]:
    """A text that is used with and without its plural is one entry of a catalogue, as xgettext has it."""
    counted = {(text.text, text.context): text for text in found if text.plural}
    merged: dict[Text, list[str]] = {}
    for text, files in found.items():
        entry = merged.setdefault(counted.get((text.text, text.context), text), [])
        entry += [name for name in files if name not in entry]
    return merged


def of_python(source: str) -> list[Text]:
    """The texts of a module."""
    tree = ast.parse(source)
    names = aliases(tree)
    return [_text(call, names) for call in calls(tree, names)]


def of_template(source: str, name: str = "") -> list[Text]:
    """The texts of a template."""
    written = templatize(source, origin=name)
    starts = [match.start() for match in _CALL.finditer(written)]
    return [_text(_call_at(written, start), {name: name for name in PARTS}) for start in starts]


def aliases(tree: ast.AST) -> dict[str, str]:
    """The names that a module has given to Django's functions, each with the kind of function."""
    return {
        alias.asname or alias.name: alias.name.removesuffix("_lazy")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
        if alias.name.removesuffix("_lazy") in PARTS
    }


def calls(tree: ast.AST, names: Iterable[str]) -> Iterator[ast.Call]:
    """The calls of these functions."""
    wanted = set(names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in wanted:
            yield node


def _text(call: ast.Call, names: dict[str, str]) -> Text:
    assert isinstance(call.func, ast.Name)
    parts = PARTS[names[call.func.id]]
    values = [ast.literal_eval(argument) for argument in call.args[: len(parts)]]
    return Text(**dict(zip(parts, values, strict=True)))


def _call_at(written: str, start: int) -> ast.Call:
    """The call that begins here: up to the first bracket that makes it a whole one."""
    for end in (match.end() for match in re.compile(r"\)").finditer(written, start)):
        try:
            expression = ast.parse(written[start:end], mode="eval").body
        except SyntaxError:
            continue
        assert isinstance(expression, ast.Call)
        return expression
    raise AssertionError(f"No call in {written[start : start + 80]!r}")


def templates() -> list[Path]:
    """The app's templates."""
    return sorted((APP / "templates").rglob("*.html"))
