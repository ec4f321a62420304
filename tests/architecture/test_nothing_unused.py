"""What the app defines is used by it, by the project beside it, or by those who write against it; tests do not count.

The search goes by names: a module's own are followed through imports, members of classes are looked for as words.
"""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from django.apps import apps
from django.db import models

from durable.conf import Settings
from tests.architecture.source import ROOT
from tests.architecture.uses import Module, defined_in, words_of

OF_DJANGO = "Django finds it by its name"
SOON = "made with the first migration for what comes next, so that no table has to be changed for it"
UNTOLD = "asyncio or structlog call it, or promise it to code"

USED_BY_OTHERS = {
    "durable.apps.DurableConfig": OF_DJANGO,
    "durable.management.commands.durable.Command": OF_DJANGO,
    "durable.management.commands.runworker.Command": OF_DJANGO,
    "durable.testing.fixtures.durable_eager": "a fixture for pytest, of projects that name its module",
    "durable.models.fields.Spelled": "a lookup that is registered by its decorator",
    "durable.templatetags.durable_styles.durable_styles": OF_DJANGO,
    "durable.templatetags.durable_texts.isolated": OF_DJANGO,
    "durable.templatetags.durable_triage.durable_triage": OF_DJANGO,
    "durable.admin.lists.downloads._Member.as_postgresql": OF_DJANGO,
    "durable.models.fields.MomentField.from_db_value": OF_DJANGO,
    "durable.models.fields.JsonTextField.from_db_value": OF_DJANGO,
    "durable.kernel.loop.handles.ReadyHandle.get_context": UNTOLD,
    "durable.logs.structured._End.warn": UNTOLD,
    "durable.logs.structured._End.critical": UNTOLD,
    "durable.logs.structured._End.fatal": UNTOLD,
    "durable.kernel.replay.execution.Execution.unread_signals": "what a workflow that continues as new will carry over",
}
COLUMNS_FOR_LATER = {f"Workflow.{name}": SOON for name in ("status_data",)}
FOR_LATER = tuple(f".{column}" for column in COLUMNS_FOR_LATER)
PERMISSIONS_FOR_LATER = {"reopen_workflow": SOON}


@cache
def app() -> tuple[Module, ...]:
    return tuple(Module(path) for path in sorted((ROOT / "durable").rglob("*.py")) if "migrations" not in path.parts)


@cache
def used_paths() -> frozenset[str]:
    """Dotted paths that the app or the project use; what a package hands on, where somebody takes it there."""
    project = [Module(path) for path in (*(ROOT / "project").rglob("*.py"), ROOT / "manage.py")]
    packages = {module.name: module for module in app() if module.is_package}
    paths = {path for module in (*app(), *project) for path in module.uses()}
    waiting = [*paths, *(f"{name}.{exported}" for name in packages for exported in public(name))]
    while waiting:
        package, _, name = waiting.pop().rpartition(".")
        origin = packages[package].imported.get(name) if package in packages else None
        if origin and origin not in paths:
            paths.add(origin)
            waiting.append(origin)
    return frozenset(paths)


def public(package: str) -> list[str]:
    """What the package offers to those who write against it."""
    if package not in ("durable", "durable.testing"):
        return []
    return list(importlib.import_module(package).__all__)


@cache
def words(*, without_models: bool) -> Counter[str]:
    """How often the app and the project use a word, their templates and scripts included."""
    counted: Counter[str] = Counter()
    for folder in ("durable", "project"):
        for path in (ROOT / folder).rglob("*"):
            left_out = {"migrations", "models"} if without_models else {"migrations"}
            if path.suffix in (".py", ".html", ".txt", ".js") and not left_out & set(path.parts):
                counted.update(words_of(path))
    return counted


def unused_names() -> Iterator[str]:
    paths = used_paths()
    for module in app():
        for defined in defined_in(module.tree.body):
            path = f"{module.name}.{defined.name}"
            is_used = path in paths or f"*.{defined.name}" in paths or module.used_inside(defined)
            if not is_used and not defined.name.startswith("__"):
                yield path


def unused_members() -> Iterator[str]:
    counted = words(without_models=False)
    for module in app():
        for of_class in module.tree.body:
            if not isinstance(of_class, ast.ClassDef):
                continue
            bases = getattr(importlib.import_module(module.name), of_class.name).__mro__[1:]
            foreign = [base for base in bases if not base.__module__.startswith("durable")]
            for member in defined_in(of_class.body):
                is_known = member.name.startswith("__") or member.name == "Meta" or counted[member.name]
                if not is_known and not any(hasattr(base, member.name) for base in foreign):
                    yield f"{module.name}.{of_class.name}.{member.name}"


def test_every_name_of_the_app_is_used_by_more_than_tests() -> None:
    unused = {path for path in (*unused_names(), *unused_members()) if not path.endswith(FOR_LATER)}
    assert unused - set(USED_BY_OTHERS) == set(), "Remove them, with the tests that hold them up."
    assert set(USED_BY_OTHERS) - unused == set(), "These are used, or gone: take them from the list."


def test_every_setting_is_read_somewhere() -> None:
    """Being validated is not being read."""
    read: set[str] = set()
    for module in app():
        read |= {
            node.attr
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        }
    assert [name for name in Settings.__dataclass_fields__ if name not in read] == []


def test_every_column_is_read_or_written_or_comes_soon() -> None:
    counted = words(without_models=True)
    unused = {
        f"{model.__name__}.{field.name}"
        for model in apps.get_app_config("durable").get_models()
        for field in model._meta.get_fields()
        if isinstance(field, models.Field) and not counted[field.name] and not counted[field.attname]
    }
    assert unused == set(COLUMNS_FOR_LATER)


def test_every_permission_is_asked_for_or_comes_soon() -> None:
    counted = words(without_models=True)
    unused = {
        codename
        for model in apps.get_app_config("durable").get_models()
        for codename, _ in model._meta.permissions
        if not counted[codename]
    }
    assert unused == set(PERMISSIONS_FOR_LATER)


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        ("def left(): ...", ["left"]),
        ("def left(): return left()", ["left"]),
        ("LEFT = 1\nRIGHT = LEFT", ["RIGHT"]),
        ("class Left: ...\nclass Right(Left): ...", ["Right"]),
        ("def used(): ...\nused()", []),
    ],
)
def test_the_search_finds_what_nothing_refers_to(code: str, unused: list[str]) -> None:
    module = Module(ROOT / "durable" / "imagined.py")
    vars(module)["tree"] = ast.parse(code)
    assert [each.name for each in defined_in(module.tree.body) if not module.used_inside(each)] == unused
