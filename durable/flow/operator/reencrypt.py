"""Rewrites payloads in the form that the codec writes today: with another key, or encrypted at all.

The one exception to "events never change": of an event, only the payload within its envelope is replaced, by the same
payload. Digests are of the plain text, and stay.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.errors import EncryptionKeyUnknown, PayloadError
from durable.flow.transactions import transaction
from durable.kernel import failures
from durable.kernel.codec import Codec
from durable.kernel.failures import SEALED, SEALED_REASON
from durable.kernel.history.events import EventType, MessageKind
from durable.kernel.payloads import birthplace, wire
from durable.kernel.payloads.birthplace import Birthplace
from durable.logs import get_logger, words
from durable.outcomes import Failure, Reencrypted
from durable.store.runs import workflows
from durable.store.texts import payloads
from durable.store.texts.payloads import Place, Stored

logger = get_logger("durable.flow")

_TEXTS = 200
_CHARACTERS = 2_000_000
_WORKFLOWS = 500
"""Bounds of a piece: texts and characters of one workflow in one transaction, and ids looked up at once."""


def reencrypt(workflow_id: uuid.UUID, *, dry_run: bool = False) -> Reencrypted:
    """Rewrites the payloads of one workflow, live or closed, that the codec would write differently today.

    In batches, each read without a lock and written in a transaction of its own under the workflow's lock; it may be
    interrupted and repeated at any point, and payloads that are up to date are skipped. A payload that cannot be read
    is left as it is, and counted. With `dry_run` nothing is written.
    """
    codec = settings.codec()
    single = transaction.reading(partial(workflows.look, ids=[workflow_id])).get(workflow_id)
    if single is None:
        return Reencrypted()
    total = Reencrypted()
    for place in Place:
        after = 0
        while True:
            look = partial(
                payloads.read, place=place, workflow_id=workflow_id, after=after, limit=_TEXTS, characters=_CHARACTERS
            )
            piece = transaction.reading(look)
            if not piece:
                break
            after = piece[-1].key
            texts, unreadable = _rewritten(codec, place, workflow_id, piece, single=single.single)
            for stored, problem in unreadable:
                logger.warning(
                    "payload.not_reencrypted",
                    workflow=str(workflow_id),
                    place=place.name.lower(),
                    key=stored.key,
                    error=words(problem),
                    **({"key_id": problem.key_id} if isinstance(problem, EncryptionKeyUnknown) else {}),
                )
            written = len(texts)
            if texts and not dry_run:
                written = transaction.own(partial(_replace, place=place, workflow_id=workflow_id, texts=texts))
            total += Reencrypted(payloads=written, unreadable=len(unreadable))
    return total


def workflows_after(after: uuid.UUID | None) -> list[uuid.UUID]:
    """The next workflows in the order of their ids; an empty list is the end."""
    return transaction.reading(partial(payloads.workflows_after, after=after, limit=_WORKFLOWS))


def _replace(
    connection: BaseDatabaseWrapper, *, place: Place, workflow_id: uuid.UUID, texts: Sequence[tuple[Stored, str]]
) -> int:
    workflows.lock(connection, [workflow_id])
    return payloads.replace(connection, place, workflow_id, texts)


def _rewritten(
    codec: Codec, place: Place, workflow_id: uuid.UUID, piece: Sequence[Stored], *, single: bool
) -> tuple[list[tuple[Stored, str]], list[tuple[Stored, PayloadError]]]:
    """The replacements, and the payloads that could not be read."""
    texts: list[tuple[Stored, str]] = []
    unreadable: list[tuple[Stored, PayloadError]] = []
    for stored in piece:
        try:
            text = _FORMS[place](codec, workflow_id, stored, single)
        except PayloadError as problem:
            unreadable.append((stored, problem))
            continue
        if text != stored.text:
            texts.append((stored, text))
    return texts, unreadable


def _renewed(codec: Codec, text: str, born: Birthplace) -> str:
    if codec.is_current(text):
        return text
    return codec.rewrap(text, path="payload", birthplace=born)


def _input(codec: Codec, workflow_id: uuid.UUID, stored: Stored, single: bool) -> str:  # noqa: FBT001 - one of `_FORMS`
    return _renewed(codec, stored.text, birthplace.arguments(workflow_id, stored.kind))


def _heartbeat(codec: Codec, workflow_id: uuid.UUID, stored: Stored, single: bool) -> str:  # noqa: FBT001 - as above
    return _renewed(codec, stored.text, birthplace.heartbeat(workflow_id, stored.ordinal or 0))


def _result(codec: Codec, workflow_id: uuid.UUID, stored: Stored, single: bool) -> str:  # noqa: FBT001 - as above
    return _renewed(codec, stored.text, birthplace.result(workflow_id, 1 if single else None))


def _message(codec: Codec, workflow_id: uuid.UUID, stored: Stored, single: bool) -> str:  # noqa: FBT001 - as above
    if stored.kind == MessageKind.COMPLETED:
        return _renewed(codec, stored.text, birthplace.result(workflow_id, stored.ordinal))
    return _envelope(codec, workflow_id, stored, single)


def _envelope(codec: Codec, workflow_id: uuid.UUID, stored: Stored, single: bool) -> str:  # noqa: FBT001 - as above
    """The same JSON with each payload in it renewed; text that is no JSON object holds none."""
    try:
        data = json.loads(stored.text or "null")
    except ValueError:
        return stored.text
    if not isinstance(data, dict):
        return stored.text
    renewed: dict[str, Any] = {
        key: _renewed(codec, data[key], born)
        for key, born in birthplace.within(data, workflow_id, ordinal=stored.ordinal, single=single).items()
        if isinstance(data[key], str)
    }
    new = {**data, **renewed}
    if stored.kind == EventType.WORKFLOW_BLOCKED or SEALED in data:
        new = _sealed(codec, new, birthplace.failure(workflow_id, None), _sealed_block)
    if isinstance(data.get("failure"), dict):
        born = birthplace.failure_within(data, workflow_id, ordinal=stored.ordinal, single=single)
        new["failure"] = _sealed(codec, data["failure"], born, _sealed_failure)
    return stored.text if new == data else wire.dump(new)


def _failure(codec: Codec, workflow_id: uuid.UUID, stored: Stored, single: bool) -> str:  # noqa: FBT001 - as above
    """The texts of an error in a failure that is stored by itself."""
    text = _envelope(codec, workflow_id, replace(stored, text=f'{{"failure":{stored.text}}}', kind=""), single)
    return text.removeprefix('{"failure":').removesuffix("}")


def _reason(codec: Codec, workflow_id: uuid.UUID, stored: Stored, single: bool) -> str:  # noqa: FBT001 - as above
    born = birthplace.failure(workflow_id, None)
    if stored.text.startswith(SEALED_REASON):
        return SEALED_REASON + _renewed(codec, stored.text.removeprefix(SEALED_REASON), born)
    if not stored.text or not settings.seals_failures:
        return stored.text
    text = failures.sealed_reason(stored.text, born, codec=codec)
    if not text.startswith(SEALED_REASON):
        raise _not_sealed(born)
    return text


Sealing = Callable[[Mapping[str, Any], Birthplace, Codec], Mapping[str, Any]]


def _sealed(codec: Codec, data: Mapping[str, Any], born: Birthplace, seal: Sealing) -> dict[str, Any]:
    """Texts of errors, sealed as the codec would today; including those stored in plain text before
    there was a codec.
    """
    text = data.get(SEALED)
    if isinstance(text, str):
        return {**data, SEALED: _renewed(codec, text, born)}
    if not settings.seals_failures:
        return dict(data)
    sealed = dict(seal(data, born, codec))
    if SEALED not in sealed:  # its text would be lost: keep it in plain text instead
        raise _not_sealed(born)
    return sealed


def _sealed_block(data: Mapping[str, Any], born: Birthplace, codec: Codec) -> Mapping[str, Any]:
    return failures.sealed_block(data, born, codec=codec)


def _sealed_failure(data: Mapping[str, Any], born: Birthplace, codec: Codec) -> Mapping[str, Any]:
    return failures.sealed(Failure.from_data(data), born, codec=codec)


def _not_sealed(born: Birthplace) -> PayloadError:
    return PayloadError(str(born), "it is stored in plain, and the codec could not wrap it", "Raise MAX_PAYLOAD_BYTES.")


_FORMS: dict[Place, Callable[[Codec, uuid.UUID, Stored, bool], str]] = {
    Place.DELIVERY_HEARTBEAT: _heartbeat,
    Place.ROW_HEARTBEAT: _heartbeat,
    Place.ROW_INPUT: _input,
    Place.MESSAGE: _message,
    Place.ATTEMPT: _failure,
    Place.EVENT: _envelope,
    Place.WORKFLOW_INPUT: _input,
    Place.WORKFLOW_RESULT: _result,
    Place.WORKFLOW_FAILURE: _failure,
    Place.WORKFLOW_BLOCK: _reason,
}
