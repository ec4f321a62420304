"""Payloads: JSON text, the same bytes on both databases, checked at the call.

`JsonCodec` writes what the annotations say. For encryption or compression, override its `wrap` and `unwrap`: each
gets the payload's birthplace, so that a text can be bound to its place.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from durable.errors import PayloadError, PayloadTooLarge
from durable.errors.hiding import hiding
from durable.errors.showing import class_name, is_a
from durable.kernel.history.events import DIGEST_KEY
from durable.kernel.limits import DEFAULT_PAYLOAD_BYTES
from durable.kernel.loop.stack import with_room
from durable.kernel.payloads import birthplace as birthplaces
from durable.kernel.payloads.arguments import ArgumentPlan
from durable.kernel.payloads.birthplace import NOWHERE, Birthplace
from durable.kernel.payloads.converters import converter
from durable.kernel.payloads.natives import is_storable, parsed, plain_text, quickly, written
from durable.kernel.payloads.secrets import holds_secret
from durable.kernel.payloads.steps import Steps
from durable.kernel.payloads.unwritable import a, endless, refusal_of, unreadable
from durable.kernel.texts.failure import for_log, interrupts, sentence


class Codec(Protocol):
    """What carries values. `JsonCodec` is one; the setting `CODEC` names another, as a subclass of it.

    `path` names the value in errors; `birthplace` is where the payload was made, also when a copy of it is read.
    """

    def encode(self, value: Any, hint: Any = Any, *, path: str, birthplace: Birthplace) -> str:
        """The payload of a value. Raises `PayloadError` with the path to what cannot be carried."""

    def decode(self, text: str, hint: Any = Any, *, path: str, birthplace: Birthplace) -> Any:
        """The value of a payload. Raises `PayloadError`."""

    def read(self, data: Any, hint: Any = Any, *, path: str) -> Any:
        """The value of JSON natives, the second half of `decode`. Raises `PayloadError`."""

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        """Last step of writing."""

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        """First step of reading."""

    def is_current(self, stored: str) -> bool:
        """Whether `stored` already has the current format and key."""

    def rewrap(self, stored: str, *, path: str, birthplace: Birthplace) -> str:
        """The same payload as `wrap` would write it today. Raises `PayloadError`."""

    def seal(self, plain: str, *, path: str, birthplace: Birthplace) -> str:
        """JSON text as it is stored. Raises `PayloadError`."""

    def opened(self, stored: str, *, path: str, birthplace: Birthplace) -> str:
        """JSON text from what is stored, the first half of `unseal`. Raises `PayloadError`."""

    def natives(self, plain: str, *, path: str) -> Any:
        """JSON natives from JSON text, the second half. Raises `PayloadError`."""

    def unseal(self, stored: str, *, path: str, birthplace: Birthplace) -> Any:
        """JSON natives from stored text. Raises `PayloadError`."""


class JsonCodec:
    """Values as JSON text, by their annotations. `max_bytes` bounds that text, in bytes of UTF-8, both before `wrap`
    and after it.
    """

    @classmethod
    def fault(cls, options: Mapping[str, Any]) -> str:
        """What this codec lacks in the project's `DURABLE`, as a sentence with its cure; empty if it lacks nothing."""
        return ""

    def __init__(self, *, max_bytes: int = DEFAULT_PAYLOAD_BYTES) -> None:
        self.max_bytes = max_bytes

    def encode(self, value: Any, hint: Any = Any, *, path: str, birthplace: Birthplace = NOWHERE) -> str:
        """The payload of a value. Raises `PayloadError` with the path to what cannot be carried."""
        try:
            data = with_room(lambda: converter(hint).encode(value, 0))
        except BaseException as error:  # noqa: BLE001 - the value's own code runs in there
            refusal = refusal_of(endless(error))
            if holds_secret(hint):
                refusal.unquote()
            refusal.hide(path)
            raise PayloadError(refusal.path(path), refusal.problem, refusal.cure) from refusal.cause
        try:
            plain = plain_text(data, path)
        except PayloadError as error:
            raise _unquoted(error, path, hint) from None
        return self.seal(plain, path=path, birthplace=birthplace)

    def decode(self, text: str, hint: Any = Any, *, path: str, birthplace: Birthplace = NOWHERE) -> Any:
        """The value of a payload. Raises `PayloadError`, whatever is wrong with it."""
        return self.read(self.unseal(text, path=path, birthplace=birthplace), hint, path=path)

    def read(self, data: Any, hint: Any = Any, *, path: str) -> Any:
        """The value of JSON natives. Raises `PayloadError`, also when the reading takes more steps than allowed."""
        try:
            return with_room(lambda: converter(hint).decode(data, Steps(data)))
        except BaseException as error:  # noqa: BLE001 - as above: `__init__` and `_missing_` of the user's classes
            refusal = unreadable(endless(error))
            raise PayloadError(refusal.path(path), refusal.problem, refusal.cure) from refusal.cause

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        """Last step of writing: JSON text into the text that is stored. A hook for encryption and compression.

        `birthplace` says what is written, and of which workflow; `unwrap` of the text, or of a copy of it, gets the
        same. If the hook binds the text to its place, it detects a text that was moved elsewhere.
        """
        return text

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        """First step of reading: the inverse of `wrap`."""
        return text

    def is_current(self, stored: str) -> bool:
        """Whether `stored` already has the format and key that `wrap` writes now. If so, `durable reencrypt` leaves it
        alone.
        """
        return True

    def rewrap(self, stored: str, *, path: str, birthplace: Birthplace = NOWHERE) -> str:
        """The same payload as `wrap` would write it today, however large. Raises `PayloadError`."""
        try:
            return self.wrap(self.unwrap(stored, birthplace), birthplace)
        except BaseException as error:  # a hook is the user's code
            if interrupts(error) or is_a(error, PayloadError):
                raise
            problem = f"{type(self).__name__} failed with {sentence(error)}"
            raise PayloadError(path, problem, "Was it written with another codec or key?") from error

    def seal(self, plain: str, *, path: str, birthplace: Birthplace = NOWHERE) -> str:
        """JSON text as it is stored: wrapped. Neither the plain text nor what is stored is larger than `max_bytes`.

        Raises `PayloadError`.
        """
        self._measure(plain, path)
        try:
            stored = self.wrap(plain, birthplace)
        except BaseException as error:  # a hook is the user's code
            if interrupts(error) or is_a(error, PayloadError):
                raise
            problem = f"{type(self).__name__}.wrap failed with {sentence(error)}"
            raise PayloadError(path, problem, "Repair the codec.") from error
        if stored is not plain:
            if not is_a(stored, str) or not is_storable(stored):
                problem = f"{type(self).__name__}.wrap returned {_kind_of(stored)}"
                raise PayloadError(path, problem, "Return text, as base64 for bytes.")
            self._measure(stored, path)
        return stored

    def opened(self, stored: str, *, path: str, birthplace: Birthplace = NOWHERE) -> str:
        """JSON text from what is stored. What `unwrap` makes larger than `max_bytes` is refused.

        Raises `PayloadError`.
        """
        try:
            plain = self.unwrap(stored, birthplace)
        except BaseException as error:  # a hook is the user's code
            if interrupts(error) or is_a(error, PayloadError):
                raise
            problem = f"{type(self).__name__}.unwrap failed with {sentence(error)}"
            raise PayloadError(path, problem, "Was it written with another codec or key?") from error
        if not is_a(plain, str):
            problem = f"{type(self).__name__}.unwrap returned {_kind_of(plain)}"
            raise PayloadError(path, problem, "Return the text that `wrap` was given.")
        if plain is not stored and len(plain) > len(stored):
            self._measure(plain, path)
        return plain

    def natives(self, plain: str, *, path: str) -> Any:
        """JSON natives from JSON text. Raises `PayloadError`."""
        try:
            return with_room(parsed, plain)
        except (ValueError, TypeError, RecursionError) as error:
            raise PayloadError(path, f"the stored text is not JSON ({error})", "Look at it in the raw.") from None

    def unseal(self, stored: str, *, path: str, birthplace: Birthplace = NOWHERE) -> Any:
        """JSON natives from stored text: `opened`, and read. Raises `PayloadError`."""
        return self.natives(self.opened(stored, path=path, birthplace=birthplace), path=path)

    def _measure(self, text: str, path: str) -> None:
        # A character takes four bytes at most: small texts need no counting, nor do those with too many characters.
        if len(text) * 4 > self.max_bytes:
            size = len(text) if len(text) > self.max_bytes else len(text.encode("utf-8", "surrogatepass"))
            if size > self.max_bytes:
                raise PayloadTooLarge(path, size, self.max_bytes)


def _unquoted(error: PayloadError, path: str, hint: Any) -> PayloadError:
    """The same refusal; for hidden values without the path, which may contain a key of a hidden mapping."""
    hides = holds_secret(hint) or hiding.is_named_in(error.path)
    return PayloadError(path, error.problem, error.cure) if hides else error


def _kind_of(text: Any) -> str:
    return "text that no database stores" if is_a(text, str) else a(class_name(type(text)))


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

    payload: str = field(repr=False)
    digest: str


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """The arguments of a call as JSON natives and as text, before they are sealed for a place."""

    data: Mapping[str, Any] = field(repr=False)
    plain: str = field(repr=False)


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
    call = write_call(callee, args, kwargs)
    return EncodedCall(seal_call(callee, call, codec=codec, workflow_id=workflow_id), digest(call.plain, key))


def write_call(callee: Callee, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> WrittenCall:
    """The arguments as JSON. Raises `ArgumentsMismatch` and `PayloadError`."""
    try:
        data = with_room(callee.plan.encode, args, kwargs)
    except RecursionError as error:
        raise _without_end(callee, error) from for_log(error)
    plain = quickly(data)
    if plain is None:
        for name, item in data.items():
            try:
                plain_text(item, name)
            except PayloadError as error:
                raise _unquoted(error, name, callee.plan.hint_of(name)) from None
        plain = plain_text(data, callee.name)
    return WrittenCall(data, plain)


def seal_call(callee: Callee, call: WrittenCall, *, codec: Codec, workflow_id: uuid.UUID) -> str:
    """The payload of a call of this workflow, or by it. Raises `PayloadError`."""
    try:
        born = birthplaces.arguments(workflow_id, callee.name)
        return codec.seal(call.plain, path=callee.name, birthplace=born)
    except PayloadTooLarge as error:
        largest = max(call.data, key=lambda name: len(written(call.data[name])), default="")
        raise PayloadTooLarge(f"the arguments of {callee.name}, mostly {largest}", error.size, error.limit) from None


def encode_arguments(
    callee: Callee, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, codec: Codec, workflow_id: uuid.UUID
) -> str:
    """The payload alone. Raises as `encode_call` does."""
    return encode_call(callee, args, kwargs, codec=codec, workflow_id=workflow_id).payload


def decode_arguments(
    callee: Callee, text: str, *, codec: Codec, workflow_id: uuid.UUID
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments from a payload. Raises `PayloadError` if the current handler cannot be called with them."""
    born = birthplaces.arguments(workflow_id, callee.name)
    return read_arguments(callee, codec.opened(text, path=callee.name, birthplace=born), codec=codec)


def read_arguments(callee: Callee, plain: str, *, codec: Codec) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same from a payload that was opened."""
    data = codec.natives(plain, path=callee.name)
    try:
        return with_room(callee.plan.decode, data)
    except RecursionError as error:
        raise _without_end(callee, error) from for_log(error)


def _without_end(callee: Callee, error: RecursionError) -> PayloadError:
    refusal = refusal_of(endless(error))
    return PayloadError(callee.name, refusal.problem, refusal.cure)


def digest(text: str, key: bytes = b"") -> str:
    """A digest of a text, 16 hexadecimal digits. Without the key nobody can find short texts by trying them."""
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
    except PayloadError:
        raise
    except (ValueError, TypeError):
        key = b""
    if len(key) != DIGEST_KEY_BYTES:
        raise PayloadError(DIGEST_KEY, f"it is no key of {DIGEST_KEY_BYTES} bytes", "Restore the event.")
    return key
