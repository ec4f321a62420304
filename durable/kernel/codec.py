"""Payloads: JSON text, the same bytes on both databases, checked at the call.

`JsonCodec` writes what the annotations say. For encryption or compression, override its `wrap` and `unwrap`: each
is told where the payload was made, so that a text can be bound to its place.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from durable.errors import PayloadError, PayloadTooLarge
from durable.errors.showing import is_a
from durable.kernel import birthplace as birthplaces
from durable.kernel import wire
from durable.kernel.arguments import ArgumentPlan
from durable.kernel.birthplace import NOWHERE, Birthplace
from durable.kernel.converters import converter
from durable.kernel.events import DIGEST_KEY
from durable.kernel.failure import interrupts, sentence
from durable.kernel.limits import DEFAULT_PAYLOAD_BYTES
from durable.kernel.unwritable import USE_PLAIN, Refusal, refusal_of, step, unreadable

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_read = json.JSONDecoder().decode


def _write(data: Any) -> str:
    text = wire.flat(data) if type(data) is dict else None
    return _encode(data) if text is None else text


class Codec(Protocol):
    """What carries values. `JsonCodec` is one; the setting `CODEC` names another, as a subclass of it.

    `path` names the value in errors; `birthplace` is where the payload was made, also when a copy of it is read.
    """

    def encode(self, value: Any, hint: Any = Any, *, path: str, birthplace: Birthplace) -> str:
        """The payload of a value. Raises `PayloadError` with the path to what can not be carried."""

    def decode(self, text: str, hint: Any = Any, *, path: str, birthplace: Birthplace) -> Any:
        """The value of a payload. Raises `PayloadError`."""

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        """Last step of writing."""

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        """First step of reading."""

    def seal(self, plain: str, *, path: str, birthplace: Birthplace) -> str:
        """JSON text as it is stored. Raises `PayloadError`."""

    def unseal(self, stored: str, *, path: str, birthplace: Birthplace) -> Any:
        """JSON natives from stored text. Raises `PayloadError`."""


class JsonCodec:
    """Values as JSON text, by their annotations. `max_bytes` bounds what is stored, in bytes of UTF-8."""

    def __init__(self, *, max_bytes: int = DEFAULT_PAYLOAD_BYTES) -> None:
        self.max_bytes = max_bytes

    def encode(self, value: Any, hint: Any = Any, *, path: str, birthplace: Birthplace = NOWHERE) -> str:
        """The payload of a value. Raises `PayloadError` with the path to what can not be carried."""
        try:
            data = converter(hint).encode(value, 0)
        except BaseException as error:  # noqa: BLE001 - the value's own code runs in there
            refusal = refusal_of(error)
            raise PayloadError(refusal.path(path), refusal.problem, refusal.cure) from refusal.cause
        return self.seal(plain_text(data, path), path=path, birthplace=birthplace)

    def decode(self, text: str, hint: Any = Any, *, path: str, birthplace: Birthplace = NOWHERE) -> Any:
        """The value of a payload. Raises `PayloadError`, whatever is wrong with it."""
        data = self.unseal(text, path=path, birthplace=birthplace)
        try:
            return converter(hint).decode(data)
        except BaseException as error:  # noqa: BLE001 - as above: `__init__` and `_missing_` of the user's classes
            refusal = unreadable(error)
            raise PayloadError(refusal.path(path), refusal.problem, refusal.cure) from refusal.cause

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        """Last step of writing: JSON text into the text that is stored. A hook for encryption and compression.

        `birthplace` says what is written, and of which workflow; `unwrap` of the text, or of a copy of it, is told the
        same. A text that was moved elsewhere is thereby found out, if the hook binds it to its place.
        """
        return text

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        """First step of reading: the inverse of `wrap`."""
        return text

    def seal(self, plain: str, *, path: str, birthplace: Birthplace = NOWHERE) -> str:
        """JSON text as it is stored: wrapped, and no larger than `max_bytes`. Raises `PayloadError`."""
        try:
            stored = self.wrap(plain, birthplace)
        except BaseException as error:  # a hook is the user's code
            if interrupts(error) or is_a(error, PayloadError):
                raise
            problem = f"{type(self).__name__}.wrap failed with {sentence(error)}"
            raise PayloadError(path, problem, "Repair the codec.") from error
        # A character takes four bytes at most: small texts need no counting.
        if len(stored) * 4 > self.max_bytes:
            size = len(stored.encode("utf-8"))
            if size > self.max_bytes:
                raise PayloadTooLarge(path, size, self.max_bytes)
        return stored

    def unseal(self, stored: str, *, path: str, birthplace: Birthplace = NOWHERE) -> Any:
        """JSON natives from stored text. Raises `PayloadError`."""
        try:
            plain = self.unwrap(stored, birthplace)
        except BaseException as error:  # a hook is the user's code
            if interrupts(error) or is_a(error, PayloadError):
                raise
            problem = f"{type(self).__name__}.unwrap failed with {sentence(error)}"
            raise PayloadError(path, problem, "Was it written with another codec or key?") from error
        try:
            return _read(plain)
        except (ValueError, TypeError, RecursionError) as error:
            raise PayloadError(path, f"the stored text is not JSON ({error})", "Look at it in the raw.") from None


def plain_text(data: Any, path: str) -> str:
    """JSON natives as text that both databases can store. Raises `PayloadError` with the path to what they can not."""
    text = _quickly(data)
    if text is None:
        found = _find(data)
        if found is not None:
            raise PayloadError(found.path(path), found.problem, found.cure)
        try:
            text = _write(data)
        except (TypeError, ValueError) as error:
            raise PayloadError(path, f"one of its classes writes itself as no JSON ({error})", USE_PLAIN) from None
    return text


def _quickly(data: Any) -> str | None:
    """The text, if a look at the whole of it finds nothing suspicious: several times faster than one at each string."""
    try:
        text = _write(data)
        text.encode("utf-8")
    except (ValueError, TypeError):
        return None
    return None if "\\u0000" in text else text


def _find(data: Any) -> Refusal | None:
    """The first text or number that can not be stored, with the steps that lead to it."""
    if isinstance(data, dict):
        for key, item in data.items():
            found = _find(key) or _find(item)
            if found is not None:
                found.steps.append(step(key))
                return found
    elif isinstance(data, list):
        for index, item in enumerate(data):
            found = _find(item)
            if found is not None:
                found.steps.append(step(index))
                return found
    return _judged(data)


def _judged(data: Any) -> Refusal | None:
    if isinstance(data, str) and "\0" in data:
        return Refusal("text with a NUL character can not be stored", "Remove it, or pass bytes.")
    if isinstance(data, str) and any("\ud800" <= character <= "\udfff" for character in data):
        return Refusal("text with a lone surrogate can not be stored", "Decode it with errors='replace'.")
    if isinstance(data, int):
        try:
            str(data)
        except ValueError:
            return Refusal("a whole number of more digits than Python converts to text", "Pass it as bytes.")
    return None


# --- calls ---------------------------------------------------------------------------------------------------------


class Callee(Protocol):
    """What is called: a definition of an activity or workflow."""

    @property
    def name(self) -> str:
        """The registered name."""

    @property
    def plan(self) -> ArgumentPlan:
        """How its arguments are written."""


@dataclass(frozen=True, slots=True)
class EncodedCall:
    """The payload of a call's arguments, and the digest by which replay compares it.

    The digest is that of the plain text: a codec may wrap the same text differently each time.
    """

    payload: str
    digest: str


def encode_call(
    callee: Callee,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    codec: Codec,
    workflow_id: uuid.UUID,
    key: bytes = b"",
) -> EncodedCall:
    """The arguments of a call of this workflow, or by it; `key` is that of the run's digests. Raises
    `ArgumentsMismatch` and `PayloadError` at the call.
    """
    data = callee.plan.encode(args, kwargs)
    plain = _quickly(data)
    if plain is None:
        for name, item in data.items():
            plain_text(item, name)
        plain = plain_text(data, callee.name)
    try:
        born = birthplaces.arguments(workflow_id, callee.name)
        payload = codec.seal(plain, path=callee.name, birthplace=born)
    except PayloadTooLarge as error:
        largest = max(data, key=lambda name: len(_write(data[name])), default="")
        raise PayloadTooLarge(f"the arguments of {callee.name}, mostly {largest}", error.size, error.limit) from None
    return EncodedCall(payload, digest(plain, key))


def encode_arguments(
    callee: Callee, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, codec: Codec, workflow_id: uuid.UUID
) -> str:
    """The payload alone. Raises as `encode_call` does."""
    return encode_call(callee, args, kwargs, codec=codec, workflow_id=workflow_id).payload


def decode_arguments(
    callee: Callee, text: str, *, codec: Codec, workflow_id: uuid.UUID
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments from a payload. Raises `PayloadError` when today's handler can not be called with them."""
    born = birthplaces.arguments(workflow_id, callee.name)
    return callee.plan.decode(codec.unseal(text, path=callee.name, birthplace=born))


def digest(text: str, key: bytes = b"") -> str:
    """16 hexadecimal digits that stand for a text. Whoever lacks the key cannot guess short texts by trying them."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=8, key=key).hexdigest()


# --- the key of a run's digests ------------------------------------------------------------------------------------

DIGEST_KEY_BYTES: Final = 16


def stored_digest_key(key: bytes, *, codec: Codec, workflow_id: uuid.UUID) -> str:
    """The key as `workflow_started` holds it: wrapped like a payload. Raises `PayloadError`."""
    return codec.seal(f'"{key.hex()}"', path=DIGEST_KEY, birthplace=birthplaces.digest_key(workflow_id))


def read_digest_key(data: Mapping[str, Any], *, codec: Codec, workflow_id: uuid.UUID) -> bytes:
    """The key in the data of `workflow_started`; empty for a run that began before there were keys. Raises
    `PayloadError`.
    """
    stored = data.get(DIGEST_KEY)
    if stored is None:
        return b""
    try:
        born = birthplaces.digest_key(workflow_id)
        key = bytes.fromhex(codec.unseal(stored, path=DIGEST_KEY, birthplace=born))
    except (ValueError, TypeError):
        key = b""
    if len(key) != DIGEST_KEY_BYTES:
        raise PayloadError(DIGEST_KEY, f"it is no key of {DIGEST_KEY_BYTES} bytes", "Restore the event.")
    return key
