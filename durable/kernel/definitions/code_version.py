"""The version of a project's code: a digest by which a deploy is recognised."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from durable.errors.showing import descends
from durable.kernel.history.known import KNOWN

if TYPE_CHECKING:
    from durable.kernel.definitions.definition import Definition

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_PYTHONS_OWN: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
# The slots themselves: a metaclass can hide them.
_CLASS_MODULE: Final = type.__dict__["__module__"].__get__
_CLASS_SPACE: Final = type.__dict__["__dict__"].__get__
_OURS: Final = __name__.partition(".")[0]


def of(definitions: Sequence[Definition], seen: dict[str, bytes]) -> str:
    """The digest. `seen` keeps those of modules: their files may be replaced while the process runs on with the code
    that it has loaded.
    """
    hashed = hashlib.blake2b(KNOWN.encode(), digest_size=8)
    for name, module in _of_the_project():
        if name not in seen:
            seen[name] = _digest(name, module)
        hashed.update(name.encode("utf-8", "replace") + seen[name])
    spaces = {definition.fn.__module__: definition.fn.__globals__ for definition in definitions}
    for name, space in sorted(spaces.items()):
        for code in _codes(name, space):
            _feed(hashed, code)
    for definition in definitions:
        hashed.update(f"{definition.name}={definition.place};".encode())
        _feed(hashed, definition.fn.__code__)
    return hashed.hexdigest()


def _of_the_project() -> Iterator[tuple[str, dict[str, Any]]]:
    """The loaded modules of the project, by name, each with its names. `__main__` is left out: it is whatever began the
    process.
    """
    for name, module in sorted(sys.modules.items()):
        if name == "__main__" or name.partition(".")[0] == _OURS or not issubclass(type(module), types.ModuleType):
            continue
        space = object.__getattribute__(module, "__dict__")  # one that is loaded lazily stays unloaded
        file = space.get("__file__")
        if type(file) is str and not file.startswith(_PYTHONS_OWN) and _INSTALLED.isdisjoint(PurePath(file).parts):
            yield name, space


def _digest(name: str, space: dict[str, Any]) -> bytes:
    """Of the module's source, so that its constants count; without any, of its functions."""
    hashed = hashlib.blake2b(digest_size=8)
    try:
        hashed.update(space["__spec__"].loader.get_data(space["__file__"]))
    except Exception:  # noqa: BLE001 - loaders are anybody's
        for code in _codes(name, space):
            _feed(hashed, code)
    return hashed.digest()


def _codes(module: str, space: dict[str, Any]) -> list[types.CodeType]:
    """The code of a module's own functions and methods: helpers of a workflow are part of it. No code of theirs runs:
    an object may raise whatever it is asked.
    """
    codes: list[types.CodeType] = []
    for _, value in sorted(space.items()):
        if descends(type(value), type):
            own = _CLASS_MODULE(value) == module
            members = [member for _, member in sorted(_CLASS_SPACE(value).items())] if own else []
        else:
            members = [value] if type(value) is types.FunctionType and value.__module__ == module else []
        for member in members:
            function = member.__func__ if type(member) in (staticmethod, classmethod) else member
            if type(function) is types.FunctionType:
                codes.append(function.__code__)
    return codes


def _feed(hashed: Any, code: types.CodeType) -> None:
    hashed.update(code.co_code)
    hashed.update(repr((code.co_name, code.co_names, code.co_varnames, code.co_freevars)).encode("utf-8", "replace"))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _feed(hashed, constant)
        elif isinstance(constant, frozenset):
            # Its own order differs from process to process.
            hashed.update(repr(sorted(map(repr, constant))).encode("utf-8", "replace"))
        else:
            hashed.update(repr(constant).encode("utf-8", "replace"))
