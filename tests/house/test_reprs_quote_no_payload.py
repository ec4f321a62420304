"""No repr of the engine's values quotes a payload: they end up in reports of errors, with all variables of a frame."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator

import durable

PAYLOADS = {"payload", "input", "result", "heartbeat", "last_heartbeat", "started"}
"""How fields are called that hold one."""

OTHERS = {"Event": "data", "Closing": "data", "Stored": "text"}
HOLDS_NONE = {"Batch.started"}
"""Events by workflow, whose own repr is looked at."""

LATER = {"durable.bench", "durable.testing", "durable.management.commands", "durable.migrations"}
"""Nothing of a project's goes through these, or the classes are those of other modules."""


def values() -> Iterator[type]:
    for found in pkgutil.walk_packages(durable.__path__, "durable."):
        if not any(found.name.startswith(name) for name in LATER):
            module = importlib.import_module(found.name)
            for value in vars(module).values():
                if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == found.name:
                    yield value


def test_no_repr_quotes_a_payload() -> None:
    holding, quoting = 0, []
    for value in values():
        for field in dataclasses.fields(value):
            is_text = "str" in str(field.type) or "Mapping" in str(field.type) or "dict" in str(field.type)
            is_text = is_text and f"{value.__name__}.{field.name}" not in HOLDS_NONE
            if is_text and (field.name in PAYLOADS or OTHERS.get(value.__name__) == field.name):
                holding += 1
                quoting += [f"{value.__name__}.{field.name}"] if field.repr else []
    assert holding > 20
    assert quoting == []
