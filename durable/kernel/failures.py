"""Texts of failures as they are stored: message and traceback go through the codec, the class stays plain.

An error may quote anything, payloads included. Stored plain, a failure is `{type, message, traceback}`; sealed, it is
`{type, sealed}`, where `sealed` is the payload of the other two. The texts of a blocked workflow are sealed in the
same way, and the column of its reason is `sealed:` and the payload. Both forms are read, whatever the current settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from durable.errors import PayloadError, PayloadTooLarge
from durable.kernel.codec import Codec
from durable.kernel.payloads.birthplace import Birthplace
from durable.outcomes import Failure

SEALED: Final = "sealed"
BLOCK_TEXTS: Final = frozenset({"reason", "recorded", "asked", "problem", "traceback"})
"""Keys of `workflow_blocked` whose value may quote an error."""

SEALED_REASON: Final = "sealed:"
"""Begins a sealed reason in its column."""
_PATH: Final = "failure"
_LONGEST_LINE: Final = 300
_NOT_KEPT: Final = "(not kept: the codec could not wrap it)"
_NOT_READABLE: Final = "(cannot be read: the codec does not unwrap it)"

_UUID = re.compile(r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", re.IGNORECASE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|“[^”]*”|«[^»]*»")
_HEX = re.compile(r"\b(?:0x[0-9a-f]+|(?=[0-9a-f]*\d)[0-9a-f]{8,})\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def sealed(failure: Failure, born: Birthplace, *, codec: Codec) -> dict[str, str]:
    """A failure as it is stored under a codec. If the codec cannot wrap its text, the text is left out and the failure
    kept.
    """
    for trace in dict.fromkeys((failure.traceback, "")):
        text = _seal({"message": failure.message, "traceback": trace}, born, codec)
        if text is not None:
            return {"type": failure.type, SEALED: text}
    return Failure(failure.type, _NOT_KEPT).as_data()


def opened(data: Mapping[str, Any], born: Birthplace, *, codec: Codec) -> Failure:
    """The failure that was stored, sealed or plain. Raises `PayloadError`."""
    if SEALED not in data:
        return Failure.from_data(data)
    return Failure.from_data({**_unseal(data[SEALED], born, codec), "type": data.get("type", "")})


def readable(data: Mapping[str, Any], born: Birthplace, *, codec: Codec) -> Failure:
    """The same for people: an unreadable text is replaced by one that says so."""
    try:
        return opened(data, born, codec=codec)
    except PayloadError:
        return Failure(str(data.get("type", "")), _NOT_READABLE)


def sealed_block(data: Mapping[str, Any], born: Birthplace, *, codec: Codec) -> dict[str, Any]:
    """The data of `workflow_blocked` with its texts sealed."""
    texts = {key: value for key, value in data.items() if key in BLOCK_TEXTS}
    plain = {key: value for key, value in data.items() if key not in BLOCK_TEXTS}
    text = _seal(texts, born, codec)
    return {**plain, "reason": _NOT_KEPT} if text is None else {**plain, SEALED: text}


def readable_block(data: Mapping[str, Any], born: Birthplace, *, codec: Codec) -> dict[str, Any]:
    """The data of `workflow_blocked` for people."""
    if SEALED not in data:
        return dict(data)
    plain = {key: value for key, value in data.items() if key != SEALED}
    try:
        return {**plain, **_unseal(data[SEALED], born, codec)}
    except PayloadError:
        return {**plain, "reason": _NOT_READABLE}


def sealed_reason(reason: str, born: Birthplace, *, codec: Codec) -> str:
    """The reason of a block for its column. Never empty: an empty one means that nothing is blocked."""
    text = _seal({"reason": reason}, born, codec)
    return _NOT_KEPT if text is None else f"{SEALED_REASON}{text}"


def readable_reason(column: str, born: Birthplace, *, codec: Codec) -> str:
    """The same column for people."""
    if not column.startswith(SEALED_REASON):
        return column
    try:
        return str(_unseal(column.removeprefix(SEALED_REASON), born, codec).get("reason", ""))
    except PayloadError:
        return _NOT_READABLE


def normalised(failure: Failure) -> str:
    """Class and first line, without the parts that vary between cases: numbers, ids, and quoted text."""
    line = next((line for line in failure.message.splitlines() if line.strip()), "")[:_LONGEST_LINE]
    for pattern, sign in ((_UUID, "…"), (_QUOTED, "…"), (_HEX, "…"), (_NUMBER, "0")):
        line = pattern.sub(sign, line)
    return f"{failure.type}: {' '.join(line.split())}"


def _seal(texts: Mapping[str, Any], born: Birthplace, codec: Codec) -> str | None:
    try:
        return codec.seal(json.dumps(texts, ensure_ascii=False), path=_PATH, birthplace=born)
    except (PayloadError, PayloadTooLarge):
        return None


def _unseal(stored: Any, born: Birthplace, codec: Codec) -> dict[str, Any]:
    if not isinstance(stored, str):
        raise PayloadError(_PATH, "what was sealed is no text", "Look at it in the raw.")
    unsealed = codec.unseal(stored, path=_PATH, birthplace=born)
    if not isinstance(unsealed, dict):
        raise PayloadError(_PATH, "it is no object", "Look at it in the raw.")
    return unsealed
