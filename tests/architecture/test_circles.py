"""Imports make no circle, but for those that are late, and say why.

A late import stands in a function, or is there for type checkers only. Python bears a circle through it; a reader does
not: neither file can be understood, or tested, without the other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import pytest

from tests.architecture.source import sources


@dataclass(frozen=True)
class Import:
    """One import of a module of the app, and whether a comment that speaks of a circle stands above it."""

    importer: str
    imported: str
    line: int
    is_late: bool
    says_why: bool


def named(place: str) -> str:
    return place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(code: Mapping[str, str]) -> list[Import]:
    """All imports among the modules, whose code is given by their names."""
    return [
        Import(name, target, node.lineno, is_late, _says_why(text, node.lineno))
        for name, text in code.items()
        for node, is_late in _nodes(ast.parse(text), is_late=False)
        for target in _targets(node, set(code))
        if target != name
    ]


def _nodes(node: ast.AST, *, is_late: bool) -> Iterator[tuple[ast.stmt | ast.expr, bool]]:
    for child in ast.iter_child_nodes(node):
        late = is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and child in node.body and _is_for_type_checkers(node.test):
            late = True
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late
        elif isinstance(child, ast.Call) and "import_module" in ast.unparse(child.func):
            yield child, True
        yield from _nodes(child, is_late=late)


def _is_for_type_checkers(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _targets(node: ast.AST, known: set[str]) -> set[str]:
    match node:
        case ast.ImportFrom(module=str(module), names=names):
            return {full if (full := f"{module}.{alias.name}") in known else module for alias in names} & known
        case ast.Import(names=names):
            return {alias.name for alias in names} & known
        case ast.Call(args=[ast.Constant(value=str(module)), *_]):
            return {module} & known
        case _:
            return set()


def _says_why(text: str, line: int) -> bool:
    """Whether the import, or the block of imports that it belongs to, has the comment above it."""
    lines = text.splitlines()
    above = line - 2
    while above >= 0 and "import" in lines[above] and not lines[above].lstrip().startswith("#"):
        above -= 1
    comment = []
    while above >= 0 and lines[above].lstrip().startswith("#"):
        comment.append(lines[above])
        above -= 1
    return any("circle" in said for said in comment)


def closing_circles(among: list[Import]) -> list[Import]:
    """Those whose imported module leads back to the importer."""
    graph: dict[str, set[str]] = {}
    for each in among:
        graph.setdefault(each.importer, set()).add(each.imported)
    reached = {name: _reach(graph, name) for name in graph}
    return [each for each in among if each.importer in reached.get(each.imported, set())]


def _reach(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for target in graph.get(left.pop(), set()) - seen:
            seen.add(target)
            left.append(target)
    return seen


@cache
def app() -> list[Import]:
    return imports({named(source.place): source.text for source in sources("durable")})


def test_modules_that_are_imported_at_once_make_no_circle() -> None:
    at_once = [each for each in app() if not each.is_late]
    assert len(at_once) > 1_000
    assert closing_circles(at_once) == []


def test_a_late_import_that_closes_a_circle_says_why() -> None:
    late = [each for each in closing_circles(app()) if each.is_late]
    unsaid = [f"{each.importer}:{each.line} -> {each.imported}" for each in late if not each.says_why]
    assert unsaid == [], "Remove the circle, or let a comment above the import begin with `# A circle:` and say why."


def test_the_circles_that_are_left() -> None:
    """So that a new one is seen in review, even if its comment is good."""
    left = {(each.importer, each.imported) for each in closing_circles(app()) if each.is_late}
    assert left == {
        ("durable.admin.dead_letters.confirming", "durable.admin.dead_letters.room"),
        ("durable.kernel.loop.event_loop", "durable.kernel.replay.execution"),
        ("durable.kernel.replay.feeding", "durable.kernel.replay.execution"),
        ("durable.kernel.replay.feeding_children", "durable.kernel.replay.execution"),
        ("durable.kernel.replay.judging", "durable.kernel.replay.execution"),
        ("durable.worker.process.stopping", "durable.worker.process.worker"),
    }


BACK = "from app import first\n"


@pytest.mark.parametrize(
    ("code", "is_late"),
    [
        ("from app.second import that\n", False),
        ("import app.second\n", False),
        ("try:\n    from app import second\nexcept ImportError:\n    pass\n", False),
        ("if TYPE_CHECKING:\n    from app.second import That\n", True),
        ("def late():\n    from app import second\n", True),
        ("class A:\n    def late(self):\n        if True:\n            import app.second\n", True),
        ("def late():\n    return importlib.import_module('app.second')\n", True),
        ("LATE = importlib.import_module('app.second')\n", True),
    ],
)
def test_a_circle_is_found_wherever_it_is_closed(code: str, is_late: bool) -> None:
    found = closing_circles(imports({"app.first": code, "app.second": BACK, "app.third": BACK}))
    assert {(each.importer, each.imported, each.is_late) for each in found} == {
        ("app.first", "app.second", is_late),
        ("app.second", "app.first", False),
    }
    assert not any(each.says_why for each in found)


def test_a_circle_of_three_is_found_and_the_way_into_it_is_none() -> None:
    code = {"a": "import b\n", "b": "import c\n", "c": "def f():\n    # A circle: c is a part of a.\n    import a\n"}
    found = closing_circles(imports(code | {"d": "import a\n"}))
    assert [(each.importer, each.imported, each.says_why) for each in found] == [
        ("a", "b", False),
        ("b", "c", False),
        ("c", "a", True),
    ]


def test_a_comment_above_a_block_of_imports_speaks_for_each_of_them() -> None:
    block = "if TYPE_CHECKING:\n    # A circle: why.\n    from b import x\n    from c import y\n"
    assert [each.says_why for each in imports({"a": block, "b": "", "c": ""})] == [True, True]
    elsewhere = "# A circle: why.\nx = 1\nif TYPE_CHECKING:\n    from b import x\n"
    assert [each.says_why for each in imports({"a": elsewhere, "b": ""})] == [False]
