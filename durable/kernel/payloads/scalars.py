"""How single values are written as JSON and read back: natives, numbers, moments, ids, enums, bytes."""

from __future__ import annotations

import base64
import enum
import math
import re
import uuid
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from durable.errors.showing import class_name
from durable.kernel.limits import MAX_INT_DIGITS, MAX_PAYLOAD_DEPTH
from durable.kernel.payloads.steps import Steps
from durable.kernel.payloads.unwritable import (
    ANNOTATE,
    Refusal,
    a,
    at,
    is_lazy,
    misfit,
    mismatch,
    short,
    step,
    unknown,
    worked_out,
)

ANY_SHAPE = "any"
SHAPE_OF: dict[type, str] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True)
class Converter:
    """How values of one annotation are written and read.

    `encode(value, depth)` returns JSON natives, `decode(data, steps)` the value; both raise `Refusal`. `types` are the
    classes of its values, `loose` those that are accepted beside them; `shapes` are the JSON shapes that it writes.
    `among` are the only data that it reads, if these are few; `fields` are those of a record: name, converter, and
    whether it must be there. A union chooses by both.
    """

    encode: Callable[[Any, int], Any]
    decode: Callable[[Any, Steps], Any]
    types: tuple[type, ...]
    shapes: frozenset[str]
    label: str
    loose: tuple[type, ...] = ()
    among: Container[tuple[type, Any]] | None = None
    fields: Callable[[], list[tuple[str, Converter, bool]]] | None = None

    def may_read(self, data: Any) -> bool:
        """Whether the data, seen from outside, is such as this reads. Looks at nothing inside of it."""
        kind = type(data)
        shape = SHAPE_OF[kind]
        if self.among is not None and shape not in ("array", "object"):
            return (kind, data) in self.among
        return shape in self.shapes or ANY_SHAPE in self.shapes or (shape == "int" and "float" in self.shapes)


def too_deep() -> Refusal:
    """The nesting is past its limit; a value that contains itself ends here too."""
    return Refusal(
        f"nested more than {MAX_PAYLOAD_DEPTH} levels deep, or a value that contains itself",
        "Pass a flatter value, or the key of data that is stored elsewhere.",
    )


def encode_native(value: Any, depth: int, cure: str = ANNOTATE) -> Any:
    """Values without an annotation: JSON natives only, tuples as lists, nothing converted silently."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return finite(value)
    if depth > MAX_PAYLOAD_DEPTH:
        raise too_deep()
    if kind is list or kind is dict:
        return _native_list(value, depth, cure) if kind is list else _native_dict(value, depth, cure)
    if isinstance(value, enum.Enum) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        raise unknown(value, cure)
    return _encode_subclass(value, depth, cure)


def _encode_subclass(value: Any, depth: int, cure: str) -> Any:
    """Subclasses of natives (safe strings, ordered dicts) go as what they are."""
    kind = type(value)
    if issubclass(kind, list | tuple):
        return _native_list(value, depth, cure)
    if issubclass(kind, dict):
        return _native_dict(value, depth, cure)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return finite(float.__float__(value))
    if is_lazy(value):
        return encode_native(worked_out(value), depth + 1, cure)
    raise unknown(value, cure)


def _native_list(value: Any, depth: int, cure: str) -> list[Any]:
    items: list[Any] = []
    try:
        for item in value:
            items.append(encode_native(item, depth + 1, cure))  # noqa: PERF401 - its length says which was refused
    except BaseException as error:  # noqa: BLE001 - the value's own code runs in there
        raise at(f"[{len(items)}]", error) from None
    return items


def _native_dict(value: dict[Any, Any], depth: int, cure: str) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for its_key, item in value.items():
        key = its_key if type(its_key) is str else worked_out(its_key)
        if not isinstance(key, str) or isinstance(key, enum.Enum):
            problem = f"is {a(class_name(type(key)))}; keys without an annotation are text"
            raise Refusal(
                f"the key {short(key)} {problem}",
                "Annotate the mapping (`dict[int, str]`), or use text as keys.",
                unquoted=f"a key, which is hidden, {problem}",
            )
        try:
            pairs[str.__str__(key)] = encode_native(item, depth + 1, cure)
        except BaseException as error:  # noqa: BLE001 - as above
            raise at(step(key), error) from None
    return pairs


def finite(value: float) -> float:
    """The number itself, unless JSON (and PostgreSQL) do not know it."""
    if math.isfinite(value):
        return value
    raise Refusal(f"{value!r} is not a number that JSON knows", "Use None, or a text, for 'not a number'.")


def check_digits(number: int) -> None:
    """Refuses a whole number that is too long to be converted to text and back."""
    if not -TOO_LONG < number < TOO_LONG:
        raise Refusal(f"a whole number of more than {MAX_INT_DIGITS:,} digits", "Pass it as bytes.")


TOO_LONG = 10**MAX_INT_DIGITS
"""The first whole number that is not carried."""


def as_is(data: Any, steps: Steps) -> Any:
    """Reading natives: nothing to do."""
    return data


def _encode_str(value: Any, depth: int) -> Any:
    if type(value) is str:
        return value
    if issubclass(type(value), str):
        return str.__str__(value)
    if is_lazy(value):
        return _encode_str(worked_out(value), depth)
    raise mismatch(value, "text")


def _decode_str(data: Any, steps: Steps) -> Any:
    if type(data) is str:
        return data
    raise misfit(data, "text")


def _encode_int(value: Any, depth: int) -> Any:
    if type(value) is int:
        return value
    if isinstance(value, int):
        return int.__int__(value)
    raise mismatch(value, "a whole number")


def _decode_int(data: Any, steps: Steps) -> Any:
    if type(data) is int:
        return data
    raise misfit(data, "a whole number")


def _encode_float(value: Any, depth: int) -> Any:
    if isinstance(value, float):
        return finite(float.__float__(value))
    if isinstance(value, int):
        try:
            number = float(int.__int__(value))
        except OverflowError:
            number = math.inf
        if number != value:
            problem = "cannot be a float without loss"
            hidden = f"the value, which is hidden, {problem}"
            raise Refusal(f"{short(value)} {problem}", "Annotate it as int.", unquoted=hidden)
        return number
    raise mismatch(value, "a number")


def _decode_float(data: Any, steps: Steps) -> Any:
    if type(data) is not float and type(data) is not int:
        raise misfit(data, "a number")
    try:
        number = float(data)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise misfit(data, "a number that a float can hold")
    return number


def _encode_bool(value: Any, depth: int) -> Any:
    if value is True or value is False:
        return value
    raise mismatch(value, "True or False")


def _decode_bool(data: Any, steps: Steps) -> Any:
    if type(data) is bool:
        return data
    raise misfit(data, "true or false")


def _encode_none(value: Any, depth: int) -> Any:
    if value is None:
        return None
    raise mismatch(value, "None")


def _decode_none(data: Any, steps: Steps) -> Any:
    if data is None:
        return None
    raise misfit(data, "null")


def _encode_decimal(value: Any, depth: int) -> Any:
    if not isinstance(value, Decimal):
        raise mismatch(value, "a Decimal")
    if not value.is_finite():
        raise Refusal(f"{value!r} is not a finite number", "Use None, or a text, for 'not a number'.")
    return Decimal.__str__(value)


def _text(data: Any, wanted: str) -> str:
    if type(data) is not str:
        raise misfit(data, wanted)
    return data


def _decode_decimal(data: Any, steps: Steps) -> Any:
    try:
        number = Decimal(_text(data, "the text of a Decimal"))
    except (ArithmeticError, ValueError):
        raise misfit(data, "the text of a Decimal") from None
    if not number.is_finite():
        raise misfit(data, "the text of a finite Decimal")
    return number


def _encode_date(value: Any, depth: int) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return date.isoformat(value)
    raise mismatch(value, "a date")


def _encode_datetime(value: Any, depth: int) -> Any:
    if isinstance(value, datetime):
        return datetime.isoformat(value)
    raise mismatch(value, "a datetime")


def _encode_time(value: Any, depth: int) -> Any:
    if isinstance(value, time):
        return time.isoformat(value)
    raise mismatch(value, "a time")


def _from_iso(kind: type[date | time], wanted: str) -> Callable[[Any, Steps], Any]:
    def decode(data: Any, steps: Steps) -> Any:
        try:
            return kind.fromisoformat(_text(data, wanted))
        except (ArithmeticError, ValueError):
            raise misfit(data, wanted) from None

    return decode


# No more digits than the longest span has: they are converted.
_SPAN = re.compile(r"(-?)P([0-9]{1,10})DT([0-9]{1,6})(?:\.([0-9]{6}))?S")


def _encode_timedelta(value: Any, depth: int) -> Any:
    if not isinstance(value, timedelta):
        raise mismatch(value, "a timedelta")
    sign, span = ("-", -value) if value < timedelta() else ("", value)
    fraction = f".{span.microseconds:06d}" if span.microseconds else ""
    return f"{sign}P{span.days}DT{span.seconds}{fraction}S"


def _decode_timedelta(data: Any, steps: Steps) -> Any:
    parsed = _SPAN.fullmatch(_text(data, "a span such as P1DT2S"))
    if parsed is None:
        raise misfit(data, "a span such as P1DT2S")
    sign, days, seconds, micros = parsed.groups()
    try:
        return timedelta(days=int(days), seconds=int(seconds), microseconds=int(micros or 0)) * (-1 if sign else 1)
    except OverflowError:
        raise misfit(data, "a span that a timedelta can hold") from None


def _encode_uuid(value: Any, depth: int) -> Any:
    if isinstance(value, uuid.UUID):
        return uuid.UUID.__str__(value)
    raise mismatch(value, "a UUID")


def _decode_uuid(data: Any, steps: Steps) -> Any:
    try:
        return uuid.UUID(_text(data, "the text of a UUID"))
    except ValueError:
        raise misfit(data, "the text of a UUID") from None


def _encode_bytes(value: Any, depth: int) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise mismatch(value, "bytes")


def _decode_bytes(data: Any, steps: Steps) -> Any:
    try:
        return base64.b64decode(_text(data, "base64 text"), validate=True)
    except ValueError:  # binascii.Error is one, too
        raise misfit(data, "base64 text") from None


def _scalar(kind: type, shape: str, encode: Any, decode: Any, loose: tuple[type, ...] = ()) -> Converter:
    return Converter(encode, decode, (kind,), frozenset({shape}), kind.__name__, loose or (kind,))


NONE = _scalar(type(None), "null", _encode_none, _decode_none)
SCALARS: dict[Any, Converter] = {
    str: _scalar(str, "string", _encode_str, _decode_str),
    int: _scalar(int, "int", _encode_int, _decode_int),
    float: _scalar(float, "float", _encode_float, _decode_float, (float, int)),
    bool: _scalar(bool, "bool", _encode_bool, _decode_bool),
    type(None): NONE,
    None: NONE,
    Decimal: _scalar(Decimal, "string", _encode_decimal, _decode_decimal),
    datetime: _scalar(datetime, "string", _encode_datetime, _from_iso(datetime, "an ISO 8601 moment")),
    date: _scalar(date, "string", _encode_date, _from_iso(date, "an ISO 8601 date")),
    time: _scalar(time, "string", _encode_time, _from_iso(time, "an ISO 8601 time")),
    timedelta: _scalar(timedelta, "string", _encode_timedelta, _decode_timedelta),
    uuid.UUID: _scalar(uuid.UUID, "string", _encode_uuid, _decode_uuid),
    bytes: _scalar(bytes, "string", _encode_bytes, _decode_bytes),
}


def native(cure: str) -> Converter:
    """The converter of values that have no annotation, with the cure that its refusals give."""
    return Converter(
        lambda value, depth: encode_native(value, depth, cure), as_is, (object,), frozenset({ANY_SHAPE}), "Any"
    )
