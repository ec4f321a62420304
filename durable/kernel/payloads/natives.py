"""JSON natives as text, and back: the same text on both databases, and in bounded work."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from durable.errors import PayloadError
from durable.kernel.limits import MAX_INT_DIGITS, MAX_STORED_DEPTH
from durable.kernel.payloads import wire
from durable.kernel.payloads.scalars import check_digits
from durable.kernel.payloads.steps import is_deeper
from durable.kernel.payloads.unwritable import USE_PLAIN, Refusal, step


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _short_number(text: str) -> int:
    if len(text) > MAX_INT_DIGITS + text.startswith("-"):
        raise ValueError(f"a whole number of more than {MAX_INT_DIGITS:,} digits")
    return int(text)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_read = json.JSONDecoder(parse_constant=_no_number).decode
_read_guarded = json.JSONDecoder(parse_constant=_no_number, parse_int=_short_number).decode
_MANY_DIGITS = re.compile(f"[0-9]{{{MAX_INT_DIGITS + 1}}}")


def _takes_longer_numbers() -> bool:
    """Whether this process has lifted Python's own limit."""
    limit = sys.get_int_max_str_digits()
    return limit == 0 or limit > MAX_INT_DIGITS


def parsed(text: str) -> Any:
    """The natives of a text. Raises `ValueError`, also for what is nested deeper than anything that is written, and
    `RecursionError`.
    """
    read = _read_guarded if _takes_longer_numbers() and _MANY_DIGITS.search(text) else _read
    data = read(text)
    if text.count("[") + text.count("{") > MAX_STORED_DEPTH and is_deeper(data, MAX_STORED_DEPTH):
        raise ValueError(f"it is nested more than {MAX_STORED_DEPTH} levels deep")
    return data


def is_storable(text: str) -> bool:
    """Whether both databases can hold the text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def written(data: Any) -> str:
    """The text of natives. Raises `ValueError` and `TypeError` for what has none."""
    text = wire.flat(data) if type(data) is dict else None
    return _encode(data) if text is None else text


def plain_text(data: Any, path: str) -> str:
    """JSON natives as text that both databases can store. Raises `PayloadError` with the path to what they cannot."""
    text = quickly(data)
    if text is None:
        refusal = _find(data)
        if refusal is not None:
            raise PayloadError(refusal.path(path), refusal.problem, refusal.cure)
        try:
            text = written(data)
        except (TypeError, ValueError) as error:
            raise PayloadError(path, f"one of its classes writes itself as no JSON ({error})", USE_PLAIN) from None
    return text


def quickly(data: Any) -> str | None:
    """The text, if a check of the whole finds nothing suspicious: several times faster than checking each string."""
    if _takes_longer_numbers() and _find(data) is not None:
        return None
    try:
        text = written(data)
        text.encode("utf-8")
    except (ValueError, TypeError):
        return None
    return None if "\\u0000" in text else text


def _find(data: Any) -> Refusal | None:
    """The first text or number that cannot be stored, with the steps that lead to it."""
    if isinstance(data, dict):
        for key, item in data.items():
            refusal = _find(key) or _find(item)
            if refusal is not None:
                refusal.steps.append(step(key))
                return refusal
    elif isinstance(data, list):
        for index, item in enumerate(data):
            refusal = _find(item)
            if refusal is not None:
                refusal.steps.append(step(index))
                return refusal
    return _judged(data)


def _judged(data: Any) -> Refusal | None:
    if isinstance(data, str) and "\0" in data:
        return Refusal("text with a NUL character cannot be stored", "Remove it, or pass bytes.")
    if isinstance(data, str) and any("\ud800" <= character <= "\udfff" for character in data):
        return Refusal("text with a lone surrogate cannot be stored", "Decode it with errors='replace'.")
    if isinstance(data, int):
        try:
            check_digits(data)
            str(data)
        except Refusal as refusal:
            return refusal
        except ValueError:
            return Refusal("a whole number of more digits than Python converts to text", "Pass it as bytes.")
    return None
