"""What is public, as text: every name with its signature. `python -m tests.architecture.freezing` freezes it anew."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_overloads

FROZEN = Path(__file__).parent / "public.txt"
MODULES = ("durable", "durable.operations", "durable.signals", "durable.tasks", "durable.testing")
HELD = (
    "durable.client.handle.Handle",
    "durable.decorators.activities.Activity",
    "durable.decorators.activities.BoundActivity",
    "durable.decorators.workflows.BoundWorkflow",
    "durable.decorators.workflows.WorkflowType",
    "durable.kernel.context.activity_context.ActivityInfo",
    "durable.kernel.codec.JsonCodec",
    "durable.crypto.EncryptingCodec",
    "durable.testing.fixtures.durable_eager",
)
"""What callers hold, or derive from, without importing it from one of the modules."""
OF_OBJECT = frozenset(dir(object)) | {"__weakref__", "__slots__", "__dict__", "__module__", "__annotations__"}


def public() -> str:
    """All of it, a line for each name, in order."""
    lines: list[str] = []
    for name in MODULES:
        module = importlib.import_module(name)
        names = getattr(module, "__all__", None) or [
            each for each, value in vars(module).items() if each[0] != "_" and type(value).__name__ == "Signal"
        ]
        for each in sorted(names):
            lines += shown(f"{name}.{each}", getattr(module, each))
    for path in HELD:
        module_name, _, each = path.rpartition(".")
        lines += shown(path, getattr(importlib.import_module(module_name), each))
    return "\n".join(lines) + "\n"


def shown(path: str, value: Any) -> Iterator[str]:
    """A name, and what it has that callers see."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        yield f"{path}: enum {{{', '.join(f'{member.name}={member.value!r}' for member in value)}}}"
    elif isinstance(value, type):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"{path}: class({bases}){'' if issubclass(value, BaseException) else signature(value)}"
        if issubclass(value, BaseException) and "__init__" in vars(value):
            yield f"{path}.__init__{signature(vars(value)['__init__'])}"
        yield from members(path, value)
    elif callable(value):
        for each in get_overloads(value) or [value]:
            yield f"{path}{signature(each)}"
    else:
        kind = type(value)
        yield f"{path}: {kind.__name__}" + (f" {value!r}" if kind in (str, int, tuple) and "__" not in path else "")


def members(path: str, kind: type) -> Iterator[str]:
    """Own ones and inherited ones of the app's classes, without those that are nobody's business."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("durable"):
            found |= {name: value for name, value in vars(base).items() if name not in OF_OBJECT}
            found |= {name: None for name in vars(base).get("__annotations__", {}) if name not in found}
    for name, value in sorted(found.items()):
        if name.startswith("_") and name not in ("__call__", "__enter__", "__exit__", "__await__"):
            continue
        if isinstance(value, types.MemberDescriptorType) and name not in getattr(kind, "__dataclass_fields__", {}):
            continue  # a slot of ours
        called = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        yield f"{path}.{name}{signature(called) if inspect.isfunction(called) else ''}"


def signature(value: Any) -> str:
    try:
        return re.sub(r" object at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(…)"


def main() -> None:
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    FROZEN.write_text(public(), encoding="utf-8")


if __name__ == "__main__":
    main()
