"""Values that are never shown: `Annotated[str, durable.Secret]`, and fields of certain names.

Where payloads are shown, their annotations may be unknown (that of a signal is in the code that waits for it). So a
field that is marked once, in any registered function, is hidden by its name everywhere.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from durable.errors.showing import class_name
from durable.kernel.payloads.hints import Unresolved, resolved

HIDDEN: Final = "hidden"
WHOLE_RESULT: Final = ""
"""Among the names: there is a function whose result is secret as a whole, so that no result is shown."""

_MARK = re.compile(r"\bSecret\b")


class Secret:
    """Marks a value that the admin, commands, errors and reprs show as "hidden", whatever the permissions.

    `Annotated[str, durable.Secret]`, for a parameter or the field of a record. It is stored as usual: to protect it
    from people who read the database, use the codec.
    """


def is_secret(hint: Any) -> bool:
    """Whether an annotation is marked, itself or as a member of a union or a list."""
    return _is_secret(hint, frozenset())


def holds_secret(hint: Any) -> bool:
    """Whether an annotation is marked, or a field is at any depth of it."""
    return bool(names_of({"value": hint}))


def _is_secret(hint: Any, inside: frozenset[int]) -> bool:
    if typing.get_origin(hint) is typing.Annotated:
        marked = any(mark is Secret or isinstance(mark, Secret) for mark in hint.__metadata__)
        return marked or _is_secret(hint.__origin__, inside)
    if isinstance(hint, Unresolved):  # its names are imported for type checkers only; the mark may be one of them
        return _MARK.search(hint.text) is not None
    if isinstance(hint, typing.NewType):
        return _is_secret(hint.__supertype__, inside)
    if hasattr(hint, "__value__"):  # an alias, which may contain itself
        return id(hint) not in inside and _is_secret(hint.__value__, inside | {id(hint)})
    return any(_is_secret(part, inside) for part in typing.get_args(hint))


def names_of(hints: Mapping[str, Any]) -> frozenset[str]:
    """The names of the parameters and fields that are marked in a function's annotations, at any depth."""
    names = {field.name for field in _fields(hints) if is_secret(field.hint)}
    if "return" in names:
        names.remove("return")
        names.add(WHOLE_RESULT)
    return frozenset(names)


class Field(NamedTuple):
    """A parameter (its record has no name then), or a field of a record, with its annotation."""

    record: str
    name: str
    hint: Any


def without_meaning(hints: Mapping[str, Any]) -> list[Field]:
    """The parameters and fields of which nobody can tell whether they are marked: their annotations name what is there
    for type checkers only.
    """
    return [field for field in _fields(hints) if isinstance(field.hint, Unresolved) and not is_secret(field.hint)]


def _fields(hints: Mapping[str, Any]) -> list[Field]:
    fields: list[Field] = []
    _collect("", hints.items(), fields, {})
    return fields


def _collect(record: str, hints: Iterable[tuple[str, Any]], fields: list[Field], seen: dict[int, Any]) -> None:
    for name, hint in hints:
        fields.append(Field(record, name, hint))
        _look_into(hint, fields, seen)


def _look_into(hint: Any, fields: list[Field], seen: dict[int, Any]) -> None:
    if id(hint) in seen:
        return
    # Kept alive: annotations that are texts become new objects each time, and the id of one that is gone is used again.
    seen[id(hint)] = hint
    for part in typing.get_args(hint):
        _look_into(part, fields, seen)
    kind = typing.get_origin(hint) or getattr(hint, "__supertype__", None) or getattr(hint, "__value__", hint)
    if kind is not hint:
        _look_into(kind, fields, seen)
    elif isinstance(hint, type) and (
        dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or hasattr(hint, "_fields")
    ):
        _collect(class_name(hint), resolved(hint).items(), fields, seen)


def hidden(data: Any, names: frozenset[str]) -> Any:
    """JSON natives with the values of these names hidden, at any depth. The same object where there is none."""
    if not names:
        return data
    if isinstance(data, dict):
        shown = {
            key: HIDDEN if str(key).lstrip("*").casefold() in names else hidden(value, names)
            for key, value in data.items()
        }
        return data if all(shown[key] is value for key, value in data.items()) else shown
    if isinstance(data, list):
        listed = [hidden(item, names) for item in data]
        return data if all(item is was for item, was in zip(listed, data, strict=True)) else listed
    return data


def hidden_text(text: str, names: frozenset[str]) -> str:
    """The same of JSON text. Unreadable text is hidden completely, since it may contain anything."""
    if not names:
        return text
    try:
        data = json.loads(text)
        shown = hidden(data, names)
    except (ValueError, RecursionError):
        return HIDDEN
    return text if shown is data else json.dumps(shown, ensure_ascii=False)
