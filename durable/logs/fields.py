"""Values of fields, made plain at the call, so that later changes of an object, or errors of its methods, affect no
line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from durable.errors.showing import cut_end, is_a, said, visible

_LONGEST = 4_000
_LONGEST_IN_TEXT = 1_000
_MOST = 50
_BARE = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f-\x9f]+")


def spoken(value: Any) -> Any:
    """A value fit for logging: None, a bool, a number, a text, or a list or dict of these. Never raises because of the
    value.
    """
    if value is None or type(value) in (bool, int, float):
        return value
    if type(value) is str:
        return cut_end(value, _LONGEST)
    try:
        if is_a(value, list, tuple, set, frozenset):
            return [spoken(item) for item in list(value)[:_MOST]]
        if is_a(value, dict):
            return {said(name, _LONGEST): spoken(item) for name, item in list(value.items())[:_MOST]}
    except BaseException:  # noqa: BLE001 - the value's own code; whatever it raises, the line is said
        return "<a value that cannot be read>"
    return said(value, _LONGEST)


def text_of(fields: Mapping[str, Any]) -> str:
    """The fields as text for people: `name=value`, quoted where a value is more than a word; one line, whatever is in
    them.
    """
    return " ".join(f"{name}={_word(value)}" for name, value in fields.items())


def _word(value: Any) -> str:
    text = cut_end(value if isinstance(value, str) else str(value), _LONGEST_IN_TEXT)
    return text if _BARE.fullmatch(text) and visible(text) == text else visible(repr(text))
