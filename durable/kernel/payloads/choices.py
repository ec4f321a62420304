"""How values that are one of a few are written and read back: members of enums, literals."""

from __future__ import annotations

import enum
from typing import Any

from durable.kernel.payloads.scalars import SCALARS, SHAPE_OF, Converter
from durable.kernel.payloads.steps import Steps
from durable.kernel.payloads.unwritable import is_lazy, misfit, mismatch, unreadable, worked_out

_WORD = 64


def of_enum(kind: type[enum.Enum]) -> Converter:
    """Members go by value where all values are text or numbers (flags as numbers), else by name."""
    by_number = issubclass(kind, enum.Flag)
    members = list(kind.__members__.values())
    by_value = by_number or all(type(member.value) in (str, int, bool) for member in members)
    shapes = frozenset(SHAPE_OF[type(member.value)] for member in members) if by_value else frozenset({"string"})
    table = {(type(member.value), member.value) if by_value else (str, member.name): member for member in members}

    # Each number that a flag has met stays in its class for ever: no wider ones than its members or a machine's word.
    widest = max([_WORD, *(member.value.bit_length() for member in members)]) if by_number else 0

    def encode(value: Any, depth: int) -> Any:
        if isinstance(value, kind):
            return value.value if by_value else value.name
        raise mismatch(value, f"a member of {kind.__name__}")

    def decode(data: Any, steps: Steps) -> Any:
        member = table.get((type(data), data)) if type(data) in (str, int, bool) else None
        if member is not None:
            return member
        if by_number and type(data) is int and data.bit_length() <= widest:
            try:
                return kind(data)
            except ValueError:
                pass  # the usual word of a flag that has no such number
            except BaseException as error:  # noqa: BLE001 - `_missing_` is the user's code
                raise unreadable(error) from None
        raise misfit(data, f"a member of {kind.__name__}")

    among = None if by_number else table
    return Converter(encode, decode, (kind,), shapes or frozenset({"string"}), kind.__name__, (kind,), among)


def of_literal(values: tuple[Any, ...], label: str) -> Converter:
    """One of a few fixed values: natives, bytes and enum members."""
    table: dict[tuple[type, Any], Any] = {}
    back: dict[tuple[type, Any], Any] = {}
    for value in values:
        if isinstance(value, enum.Enum):
            written = of_enum(type(value)).encode(value, 0)
        elif isinstance(value, bytes):
            written = SCALARS[bytes].encode(value, 0)
        else:
            written = value
        table[type(value), value] = written
        back[type(written), written] = value
    wanted = f"one of {', '.join(map(repr, values))}"

    def encode(value: Any, depth: int) -> Any:
        try:
            return table[type(value), value]
        except (KeyError, TypeError):
            if is_lazy(value):
                return encode(worked_out(value), depth)
            raise mismatch(value, wanted) from None

    def decode(data: Any, steps: Steps) -> Any:
        try:
            return back[type(data), data]
        except (KeyError, TypeError):
            raise misfit(data, wanted) from None

    types = tuple({type(value): None for value in values})
    shapes = frozenset(SHAPE_OF[type(written)] for written in table.values())
    return Converter(encode, decode, types, shapes, label, types, back)
