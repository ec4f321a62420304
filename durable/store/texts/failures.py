"""How this project stores failures: whether their texts are sealed, and how they are grouped."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.crypto import salted_hmac

from durable.conf import settings
from durable.kernel import failures
from durable.kernel.failures import BLOCK_TEXTS, SEALED
from durable.kernel.payloads.birthplace import Birthplace
from durable.kernel.payloads.birthplace import failure as birthplace
from durable.outcomes import Failure

__all__ = [
    "BLOCK_TEXTS",
    "NO_KIND",
    "SEALED",
    "Kind",
    "StoredFailure",
    "block",
    "kind",
    "read",
    "read_block",
    "read_born",
    "read_reason",
    "reason",
    "stored",
]

LONGEST_CLASS: Final = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """How lists distinguish failures without reading them. `error_group` is keyed by the project's `SECRET_KEY`."""

    error_class: str = ""
    error_group: str = ""


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """A failure, and `data` as events, messages and rows hold it."""

    failure: Failure
    data: dict[str, str]
    kind: Kind


NO_KIND: Final = Kind()


def kind(failure: Failure | None) -> Kind:
    """The class and group of a failure; empty if there is none."""
    if failure is None:
        return NO_KIND
    hashed = salted_hmac("durable.error_group", failures.normalised(failure), algorithm="sha256")
    return Kind(failure.type[:LONGEST_CLASS], hashed.hexdigest()[:16])


def stored(failure: Failure, workflow_id: uuid.UUID, ordinal: int | None) -> StoredFailure:
    """A failure to write: of an activity (of a single activity: 1), or (None) of the workflow itself."""
    born = birthplace(workflow_id, ordinal)
    data = failures.sealed(failure, born, codec=settings.codec()) if settings.seals_failures else failure.as_data()
    return StoredFailure(failure, data, kind(failure))


def read(data: Mapping[str, Any], workflow_id: uuid.UUID, ordinal: int | None) -> Failure:
    """A stored failure for people and callers. An unreadable one is replaced by a text that says so."""
    return read_born(data, birthplace(workflow_id, ordinal))


def read_born(data: Mapping[str, Any], born: Birthplace) -> Failure:
    """The same by its birthplace."""
    return failures.readable(data, born, codec=settings.codec())


def block(data: Mapping[str, Any], workflow_id: uuid.UUID) -> dict[str, Any]:
    """The data of `workflow_blocked` to write."""
    if not settings.seals_failures:
        return dict(data)
    return failures.sealed_block(data, birthplace(workflow_id, None), codec=settings.codec())


def read_block(data: Mapping[str, Any], workflow_id: uuid.UUID) -> dict[str, Any]:
    """The same for people."""
    return failures.readable_block(data, birthplace(workflow_id, None), codec=settings.codec())


def reason(text: str, workflow_id: uuid.UUID) -> str:
    """The reason of a block for its column."""
    if not settings.seals_failures:
        return text
    return failures.sealed_reason(text, birthplace(workflow_id, None), codec=settings.codec())


def read_reason(column: str, workflow_id: uuid.UUID) -> str:
    """The same column for people."""
    return failures.readable_reason(column, birthplace(workflow_id, None), codec=settings.codec())
