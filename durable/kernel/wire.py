"""The engine's one spelling of plain JSON: the same bytes on both databases."""

from __future__ import annotations

import json
from typing import Any


def dump(value: Any) -> str:
    """Plain JSON as text: no spaces, no ASCII escapes, no NaN."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def load(text: str) -> Any:
    """The inverse of `dump`."""
    return json.loads(text)
