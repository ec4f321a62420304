"""Rules for the tests themselves: what they may import of one another, and of the product's private names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))
PRODUCT = sorted((ROOT / "durable").rglob("*.py"))
TEST_MODULE = re.compile(r"\btests(?:\.\w+)*\.test_\w+|from tests[\w.]* import (?:\w+, )*test_\w+")


def named_in(file: Path) -> list[str]:
    """Other test modules that a file names: in an import, a path for `CODEC`, the code of another process."""
    own = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    return [name for name in TEST_MODULE.findall(file.read_text("utf-8")) if name != own]


def test_no_module_uses_a_test_module() -> None:
    """What several modules need lies in one without tests, under the name of what it is; fixtures lie in `conftest.py`.
    So whoever changes one test does not change others.
    """
    assert len(FILES) > 400
    used = {str(file.relative_to(ROOT)): named_in(file) for file in FILES}
    assert {file: names for file, names in used.items() if names} == {}


def private_names(tree: ast.AST) -> set[str]:
    """The names with one leading underscore that this code defines: functions, classes, variables, attributes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self")):
                names.add(node.attr)
            case _:
                pass
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


PRIVATE = set[str]().union(*(private_names(ast.parse(file.read_text("utf-8"))) for file in PRODUCT))

A_PRIVATE_NAME = re.compile(r"\b_[a-zA-Z]\w*")
OF_OTHERS = {"_", "_exit", "_commit", "_lock"}
"""Names that others have, too: gettext, `os`, Django's connections, the wheel of PostgreSQL."""


def private_uses(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each private name that a test module reads, imports or replaces, and in which line."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == "durable":
                yield from ((alias.name, node.lineno) for alias in node.names)
            case ast.Attribute():
                yield node.attr, node.lineno
            case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=[ast.Constant(value=str(path)), *_]):
                yield path.rpartition(".")[2], node.lineno
            case ast.Call(args=[_, ast.Constant(value=str(name)), *_]):
                yield name, node.lineno
            case _:
                pass


def unexplained(file: Path) -> list[str]:
    """The private names of the product that a file uses, without a comment at the first use."""
    text = file.read_text("utf-8")
    if PRIVATE.isdisjoint(A_PRIVATE_NAME.findall(text)):
        return []
    tree, lines = ast.parse(text), text.splitlines()
    of_product = PRIVATE - OF_OTHERS - private_names(tree)
    first: dict[str, int] = {}
    for name, line in private_uses(tree):
        if name in of_product:
            first[name] = min(line, first.get(name, line))
    return [f"{name}, line {at}" for name, at in first.items() if "#" not in lines[at - 1] + lines[at - 2]]


def test_private_names_of_the_product_are_used_for_a_reason_that_is_written_there() -> None:
    """A test of private names breaks with every refactoring, and what it shows may never happen to anybody. So the
    first use in a file has a comment, on its line or above its statement, which says what cannot be done without it.
    """
    assert len(PRIVATE) > 500
    assert {str(f.relative_to(ROOT)): names for f in FILES if (names := unexplained(f))} == {}


def test_the_name_of_each_test_is_a_sentence_that_stands_alone() -> None:
    """It is read in a list of failures, without the test before it: no *it* and no *and*."""
    continued = re.compile(r"def (test_(?:and|but|it|its|nor|or|so|their|then|they)_\w+)")
    names = {str(file.relative_to(ROOT)): continued.findall(file.read_text("utf-8")) for file in FILES}
    assert {file: found for file, found in names.items() if found} == {}
