"""The ids of child workflows: known at the call, and the same in every replay."""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from durable.kernel.history.events import Event, EventType

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def child_id(workflow_id: uuid.UUID, run: int, number: int, at: datetime) -> uuid.UUID:
    """The id of the child that a workflow starts with its `number`-th such call in a run: in the form of a UUIDv7, with
    the workflow's time, and a digest where others have chance. Not from the workflow's random generator, whose numbers
    move when code takes one more of them.
    """
    digest = hashlib.sha256(f"{workflow_id}:{run}:{number}".encode()).digest()
    bits = int.from_bytes(digest[:10], "big") >> 6
    high, low = bits >> 62, bits & ((1 << 62) - 1)
    milliseconds = (at - _EPOCH) // _MILLISECOND
    return uuid.UUID(int=(milliseconds << 80) | (0x7 << 76) | (high << 64) | (0b10 << 62) | low)


class ChildIds:
    """Counts the calls of a run. In replay the recorded id counts: code that has come to make the calls of an
    activation in another order gets the ids that it had.
    """

    __slots__ = ("_given", "_number", "_recorded", "_run", "_workflow_id")

    def __init__(self, workflow_id: uuid.UUID, run: int) -> None:
        self._workflow_id = workflow_id
        self._run = run
        self._number = 0
        self._recorded: dict[uuid.UUID, tuple[str, str | None, str]] = {}
        self._given: set[uuid.UUID] = set()

    def enter(self, run: int) -> None:
        """The calls of another run are counted anew."""
        self._run = run
        self._number = 0

    def expect(self, records: Sequence[Event]) -> None:
        """The records of the activation that is replayed next; none: it is new."""
        self._given = set()
        self._recorded = {
            uuid.UUID(record.data["child"]): (record.data["type"], record.data.get("key"), record.data["digest"])
            for record in records
            if record.type is EventType.CHILD_STARTED
        }

    def next(self, type: str, key: str | None, digest: str, *, at: datetime) -> uuid.UUID:
        """The id for the next call."""
        self._number += 1
        expected = child_id(self._workflow_id, self._run, self._number, at)
        if expected not in self._recorded:
            return expected
        call = (type, key, digest)
        ids = itertools.chain([expected], self._recorded)
        id = next((id for id in ids if id not in self._given and self._recorded[id] == call), expected)
        self._given.add(id)
        return id
