"""The way of one activity, as the architecture page tells it, can be walked."""

from __future__ import annotations

import ast

from tests.architecture.source import ROOT, way

MOST_FILES = 30
WHERE_ANOTHER_THREAD_BEGINS = {"durable/worker/process/worker.py"}


def leads_to(place: str) -> set[str]:
    """The files that a file imports, lazily or by name."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / place).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            found |= {origin for alias in node.names if (origin := re_exported(node.module, alias.name))}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # importlib.import_module("durable.client.start")
    return {f"{name.replace('.', '/')}.py" for name in found if name.startswith("durable.")}


def re_exported(package: str, name: str) -> str:
    """The module that a package has a name from; empty if it has none."""
    init = ROOT / package.replace(".", "/") / "__init__.py"
    if init.is_file():
        for node in ast.walk(ast.parse(init.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
                return node.module or ""
    return ""


def test_the_way_is_short() -> None:
    steps = way()
    assert 20 < len(steps) <= MOST_FILES
    assert len(set(steps)) == len(steps)


def test_every_file_on_the_way_exists() -> None:
    assert [place for place in way() if not (ROOT / place).is_file()] == []


def test_each_file_on_the_way_is_used_by_one_before_it() -> None:
    """Else the reader would have to guess how he got there."""
    known: set[str] = set()
    lost = []
    for place in way():
        if known and place not in known and place not in WHERE_ANOTHER_THREAD_BEGINS:
            lost.append(place)
        known |= leads_to(place)
    assert lost == []
