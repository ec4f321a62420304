"""The engine's one spelling of plain JSON: the same bytes on both databases."""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any

_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_LITERALS = {True: "true", False: "false", None: "null"}


def dump(value: Any) -> str:
    """Plain JSON as text: no spaces, no ASCII escapes, no NaN. Raises `ValueError` for what has no such text."""
    if type(value) is dict:
        text = flat(value)
        if text is not None:
            return text
    return _dump(value)


def flat(value: dict[Any, Any]) -> str | None:
    """The same text of an object of texts, whole numbers, booleans and nulls; None for any other.

    Nearly all that the engine writes is so small that setting up the encoder would cost more than the encoding.
    """
    parts = []
    for key, item in value.items():
        if type(key) is not str:
            return None
        kind = type(item)
        if kind is str:
            parts.append(f"{encode_basestring(key)}:{encode_basestring(item)}")
        elif kind is int:
            parts.append(f"{encode_basestring(key)}:{item}")
        elif item is None or kind is bool:
            parts.append(f"{encode_basestring(key)}:{_LITERALS[item]}")
        else:
            return None
    return "{" + ",".join(parts) + "}"


def load(text: str) -> Any:
    """The inverse of `dump`."""
    return json.loads(text)
