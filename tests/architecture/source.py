"""The app's source as the architecture tests read it: parsed, never imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
APP = ROOT / "durable"


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: Path

    @property
    def place(self) -> str:
        """Where it is, as `durable/store/deliveries/outbox.py`."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.place)


def sources(*folders: str) -> Iterator[Source]:
    """Every Python file below the folders (the app by default), migrations left out."""
    for folder in folders or ("durable",):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield Source(path)


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every call, with the last part of the name that is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node, node.func.attr
            elif isinstance(node.func, ast.Name):
                yield node, node.func.id


def used_by(source: Source) -> set[str]:
    """The modules of the app that a file imports, lazily or by name, as places."""
    found = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            found |= {origin for alias in node.names if (origin := _re_exported(node.module, alias.name))}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # importlib.import_module("durable.client.start")
    return {f"{name.replace('.', '/')}.py" for name in found if name.startswith("durable.")}


def _re_exported(package: str, name: str) -> str:
    """The module that a package has a name from; empty if it has none."""
    init = ROOT / package.replace(".", "/") / "__init__.py"
    if init.is_file():
        for node in ast.walk(ast.parse(init.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
                return node.module or ""
    return ""


def way() -> list[str]:
    """The files on the way of one activity, as the architecture page tells it; they are numbered without a gap."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    chapter = page.partition("## One activity, from `enqueue` to its end\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^(\d+)\. `(durable/[a-z_/]+\.py)`: \S", chapter, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    return [place for _, place in steps]
