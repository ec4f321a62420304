"""Who uses which name of the app, as far as its source tells: parsed, with imports followed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.architecture.source import ROOT

DOTTED = re.compile(r"durable(?:\.\w+)+")
WORDS = re.compile(r"[A-Za-z_]\w*")

Name = tuple[str, str]
"""A module, and what it calls something."""


@dataclass(frozen=True)
class Defined:
    """A name that a statement of a module, or of a class, gives to something."""

    name: str
    node: ast.stmt
    is_decorated: bool = False


def defined_in(body: list[ast.stmt]) -> Iterator[Defined]:
    """What statements define, those under a condition included."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield Defined(node.name, node, is_decorated=bool(node.decorator_list))
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from (Defined(part.id, node) for part in ast.walk(target) if isinstance(part, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield Defined(name, node)
            case ast.If(body=then, orelse=otherwise):
                yield from defined_in([*then, *otherwise])
            case ast.Try(body=then, orelse=otherwise):
                yield from defined_in([*then, *otherwise])
            case _:
                pass


class Module:
    """One file, and the names that it refers to."""

    def __init__(self, path: Path) -> None:
        relative = path.relative_to(ROOT).with_suffix("")
        parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
        self.name = ".".join(parts)
        self.path = path
        self.is_package = relative.name == "__init__"

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @cached_property
    def imported(self) -> dict[str, str]:
        """What each imported name stands for, as a dotted path."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.asname or alias.name: alias.name for alias in node.names}
        return names

    def uses(self) -> Iterator[str]:
        """Dotted paths of what is used here. Importing a name is using it, but for a package that hands it on."""
        if not self.is_package:
            yield from self.imported.values()
        for node in ast.walk(self.tree):
            match node:
                case ast.Attribute():
                    yield from self._of_attribute(node)
                case ast.Name(id=name) if self.is_package and name in self.imported:
                    yield self.imported[name]
                case ast.Constant(value=str(text)):
                    yield from DOTTED.findall(text)
                case _:
                    pass

    def _of_attribute(self, node: ast.Attribute) -> Iterator[str]:
        parts = [node.attr]
        below: ast.expr = node.value
        while isinstance(below, ast.Attribute):
            parts.append(below.attr)
            below = below.value
        if isinstance(below, ast.Name) and below.id in self.imported:
            yield ".".join([self.imported[below.id], *reversed(parts)])
        elif isinstance(below, ast.Call):  # a module that was imported late, or what a function has handed out
            yield f"*.{parts[-1]}"

    def used_inside(self, defined: Defined) -> bool:
        """Whether the module itself uses a name of its own, outside of what defines it."""
        of_itself = set(ast.walk(defined.node))
        return any(
            isinstance(node, ast.Name) and node.id == defined.name and node not in of_itself
            for node in ast.walk(self.tree)
        )


def words_of(path: Path) -> Counter[str]:
    """Every word that code refers to by attribute, keyword or text; docstrings do not count."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return Counter(WORDS.findall(text))
    counted: Counter[str] = Counter()
    tree = ast.parse(text)
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                counted[name] += 1
            case ast.Name(id=name, ctx=ast.Load()):
                counted[name] += 1
            case ast.MatchClass(kwd_attrs=names):
                counted.update(names)
            case ast.Constant(value=str(value)) if id(node) not in prose:
                counted.update(WORDS.findall(value))
            case _:
                pass
    return counted
