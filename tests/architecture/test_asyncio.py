"""What asyncio keeps to itself is used in one module, and nothing of asyncio is replaced anywhere."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator

import pytest

from tests.architecture.source import sources

ROOM = "durable/kernel/loop/asyncio_private.py"
OF_INSTANCES = {
    name
    for kind in (asyncio.Future, asyncio.Task, asyncio.Handle, asyncio.TimerHandle, asyncio.BaseEventLoop)
    for name in dir(kind)
    if name.startswith("_") and not name.startswith("__")
}


def private_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] in ("asyncio", "_asyncio"):
                yield from ((node.lineno, name.name) for name in names if _is_private(name.name))
            case ast.Attribute(attr=name) if _is_private(name) and _root(node) == "asyncio":
                yield node.lineno, name
            case ast.Attribute(value=ast.Name(id=holder), attr=name) if name in OF_INSTANCES and holder != "self":
                yield node.lineno, name
            case ast.Call(func=ast.Name(id="getattr" | "setattr"), args=[of, ast.Constant(value=str(name)), *_]):
                if name in OF_INSTANCES or (_root(of) == "asyncio" and _is_private(name)):
                    yield node.lineno, name
            case _:
                pass


def replacements(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) if _root(node) in ("asyncio", "_GatheringFuture"):
                yield node.lineno
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[of, *_]) if _root(of) == "asyncio":
                yield node.lineno
            case _:
                pass


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def test_asyncios_private_names_are_used_in_one_module() -> None:
    found = [
        f"{source.place}:{line} {name}"
        for source in sources("durable")
        if source.place != ROOM
        for line, name in private_uses(source.tree)
    ]
    assert not found, f"Give it a name in {ROOM}, and a check there that it does what we need: {found}"


def test_nothing_of_asyncio_is_replaced() -> None:
    found = [f"{source.place}:{line}" for source in sources("durable") for line in replacements(source.tree)]
    assert not found, f"It would change every loop of the host's process: {found}"


@pytest.mark.parametrize(
    "code",
    [
        "from asyncio.events import _get_running_loop",
        "asyncio.tasks._enter_task(loop, task)",
        "getattr(asyncio.tasks, '_ensure_future')",
        "task._exception",
        "future._log_traceback = False",
        "handle._cancelled",
    ],
)
def test_the_search_for_private_names_finds(code: str) -> None:
    assert list(private_uses(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "asyncio.tasks._GatheringFuture.__hash__ = other",
        "asyncio.sleep = other",
        "setattr(asyncio, 'sleep', other)",
        "del asyncio.sleep",
    ],
)
def test_the_search_for_replacements_finds(code: str) -> None:
    assert list(replacements(ast.parse(code)))
