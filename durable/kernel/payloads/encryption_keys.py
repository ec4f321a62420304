"""The keys of `ENCRYPTION_KEYS`. No message here contains any part of a key."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

KEY_BYTES: Final = 32

_KEY_ID = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_STANDARD = str.maketrans("-_", "+/")


def key_bytes(key: Any) -> bytes:
    """A key as its 32 bytes: they themselves, or in base64 of either alphabet. Raises `ValueError`."""
    raw = key
    if isinstance(key, str):
        try:
            raw = base64.b64decode(key.translate(_STANDARD), validate=True)
        except ValueError:
            raise ValueError("it is not base64") from None
    if not isinstance(raw, bytes):
        raise ValueError("it is neither text nor bytes")  # noqa: TRY004 - of the settings' content
    if len(raw) != KEY_BYTES:
        raise ValueError(f"it has {len(raw)} bytes, not {KEY_BYTES}")
    return raw


def fault_of(keys: Any) -> str:
    """What is wrong with the setting; an empty text: nothing."""
    if not isinstance(keys, dict):
        return "it is no dict"
    for number, (key_id, key) in enumerate(keys.items(), start=1):
        if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
            return f"the id of key {number} is not 1 to 32 letters, digits, '-', '_' and '.'"
        try:
            key_bytes(key)
        except ValueError as error:
            return f"of the key {key_id!r}, {error}"
    if len({key_bytes(key) for key in keys.values()}) != len(keys):
        return "two of its ids have the same key"
    return ""
