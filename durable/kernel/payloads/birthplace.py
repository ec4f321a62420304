"""Where a payload was made: what a codec gets in addition to its text.

A payload may be copied: the arguments of a single activity stand in its row and in its workflow, a result in a message,
an event and a column. Whoever reads a copy says where the original was made, which is the same for all of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from durable.kernel.history.events import DIGEST_KEY


class PayloadKind(StrEnum):
    """What a payload is. The value is bound into encrypted payloads: it never changes."""

    ARGUMENTS = "arguments"
    RESULT = "result"
    SIGNAL = "signal"
    HEARTBEAT = "heartbeat"
    FAILURE = "failure"
    DIGEST_KEY = "digest_key"
    VALUE = "value"


WORKFLOW = "workflow"
"""The path of payloads that the workflow itself has made, not one of its activities."""


class Birthplace(NamedTuple):
    """The workflow that a payload was made for or by, what it is, and its path there.

    `path` is the registered name for arguments, the signal's name for a signal, and for the other kinds `workflow` or
    `activity 3`, by the activity's ordinal. All that carries the payload on leaves the birthplace as it is, and so does
    every later run of the workflow.
    """

    workflow_id: uuid.UUID
    kind: PayloadKind
    path: str

    def __str__(self) -> str:
        return f"{self.kind.value.replace('_', ' ')} ({self.path}) of workflow {self.workflow_id}"


NOWHERE = Birthplace(uuid.UUID(int=0), PayloadKind.VALUE, "")
"""The birthplace of a value that belongs to no workflow."""


PAYLOAD_KEYS = frozenset({"input", "result", "payload"})
"""Keys of an envelope (the data of an event or a message) whose value went through the codec."""


def arguments(workflow_id: uuid.UUID, name: str) -> Birthplace:
    """Of the arguments of a workflow, or of a call of an activity, by the registered name."""
    return Birthplace(workflow_id, PayloadKind.ARGUMENTS, name)


def result(workflow_id: uuid.UUID, ordinal: int | None) -> Birthplace:
    """Of the result of an activity, or (None) of the workflow itself. That of a single activity is its activity 1's."""
    return Birthplace(workflow_id, PayloadKind.RESULT, _path(ordinal))


def signal(workflow_id: uuid.UUID, name: str) -> Birthplace:
    """Of a signal's payload, by the signal's name."""
    return Birthplace(workflow_id, PayloadKind.SIGNAL, name)


def heartbeat(workflow_id: uuid.UUID, ordinal: int) -> Birthplace:
    """Of what an activity said about how far it is."""
    return Birthplace(workflow_id, PayloadKind.HEARTBEAT, _path(ordinal))


def digest_key(workflow_id: uuid.UUID) -> Birthplace:
    """Of what keys the digests of a workflow's calls."""
    return Birthplace(workflow_id, PayloadKind.DIGEST_KEY, WORKFLOW)


def failure(workflow_id: uuid.UUID, ordinal: int | None) -> Birthplace:
    """Of the failure of an activity (of each of its attempts), or (None) of the workflow itself."""
    return Birthplace(workflow_id, PayloadKind.FAILURE, _path(ordinal))


def within(
    data: Mapping[str, Any], workflow_id: uuid.UUID, *, ordinal: int | None, single: bool
) -> dict[str, Birthplace]:
    """Of each payload in the envelope of an event or a message, by its key. `ordinal` is that of the event,
    `single` says what its workflow is.
    """
    child = child_of(data)
    birthplaces: dict[str, Birthplace] = {}
    for key in (PAYLOAD_KEYS | {DIGEST_KEY}) & data.keys():
        if key == "input":
            birthplaces[key] = arguments(workflow_id, str(data.get("type")))
        elif key == "payload":
            birthplaces[key] = signal(workflow_id, str(data.get("name")))
        elif key == DIGEST_KEY:
            birthplaces[key] = digest_key(workflow_id)
        elif child is not None:
            birthplaces[key] = result(child, None)
        else:
            birthplaces[key] = result(workflow_id, _maker(ordinal, single=single))
    return birthplaces


def failure_within(data: Mapping[str, Any], workflow_id: uuid.UUID, *, ordinal: int | None, single: bool) -> Birthplace:
    """Of the failure in such an envelope."""
    child = child_of(data)
    if child is not None:
        return failure(child, None)
    return failure(workflow_id, _maker(ordinal, single=single))


def child_of(data: Mapping[str, Any]) -> uuid.UUID | None:
    """The child whose end an envelope tells: what it holds was made by that workflow."""
    text = data.get("child")
    if not isinstance(text, str):
        return None
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _maker(ordinal: int | None, *, single: bool) -> int | None:
    return 1 if single and ordinal is None else ordinal


def _path(ordinal: int | None) -> str:
    return WORKFLOW if ordinal is None else f"activity {ordinal}"
