"""The dead letters that a bulk verb selects (rows, places, or a filter), and the loop over them. No
`atomic` in here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

from django.db import Error as DjangoDatabaseError
from django.db import InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.errors import OptionInvalid, RedriveRefused, StoreUnavailable
from durable.kernel.definitions.options import check_storable
from durable.outcomes import OF_DEAD_LETTERS, Cause, DeadLetterFilter
from durable.store.operators import redrives

A = TypeVar("A")

Read = Callable[[Callable[[BaseDatabaseWrapper], Any]], Any]
"""How to read: the verb's own way of reading outside a transaction."""

_PAGE = 2_000


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a dead letter. `run` is known if a row was passed; a pair means the current run."""

    workflow_id: uuid.UUID
    ordinal: int
    run: int | None


class Placed(Protocol):
    """What has the place of a dead letter: a `RowSnapshot`, a row of the models, a `Place`."""

    @property
    def workflow_id(self) -> uuid.UUID: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def run(self) -> int | None: ...


RowsOrFilter = DeadLetterFilter | Iterable[Placed | tuple[uuid.UUID, int]]


def check(wanted: DeadLetterFilter) -> None:
    """Raises `OptionInvalid` for a filter with values that no database accepts, which would look like a
    database error.
    """
    for name in ("workflow_type", "activity", "error_group", "queue"):
        value = getattr(wanted, name)
        if value is not None:
            check_storable(name, value)
    for workflow_id in (wanted.workflow_id, *(wanted.workflow_ids or ())):
        if workflow_id is not None and not _is_id(workflow_id):
            raise OptionInvalid("workflow_id", workflow_id, "a UUID, or the text of one")
    if wanted.cause is not None and wanted.cause not in [cause.value for cause in Cause]:
        raise OptionInvalid("cause", wanted.cause, f"one of {', '.join(OF_DEAD_LETTERS)}")


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, uuid.UUID) or bool(uuid.UUID(str(value)))
    except ValueError:
        return False


def places(rows_or_filter: RowsOrFilter, read: Read, *, limit: int | None = None) -> list[Place]:
    """The selected dead letters, oldest first for a filter; at most `limit`.

    All of them are known before the first is changed: rows that fail again meanwhile are not included, and if the
    database goes away in the middle, none is missing. Raises `StoreUnavailable` if they cannot be read, `OptionInvalid`
    for an invalid filter, `ValueError` for an invalid id.
    """
    if isinstance(rows_or_filter, DeadLetterFilter):
        check(rows_or_filter)
    try:
        if isinstance(rows_or_filter, DeadLetterFilter):
            keys = read(partial(redrives.places, wanted=rows_or_filter, limit=limit))
            return [Place(*each) for each in keys]
        return [_place(row) for row in islice(rows_or_filter, limit)]
    except (DjangoDatabaseError, InterfaceError) as error:
        raise StoreUnavailable(error, outcome_unknown=False) from error


def facts(rows_or_filter: RowsOrFilter, read: Read, *, outcomes: bool, limit: int) -> tuple[list[redrives.Facts], int]:
    """What the gates look at, of at most `limit` of them, in order; and how many more there are (1: some).

    Raises what `places` raises.
    """
    meant = places(rows_or_filter, read, limit=limit + 1)
    known: list[redrives.Facts] = []
    try:
        for start in range(0, min(len(meant), limit), _PAGE):
            keys = [(p.workflow_id, p.ordinal, p.run) for p in meant[start : min(start + _PAGE, limit)]]
            known += read(partial(redrives.facts, keys=keys, outcomes=outcomes))
    except (DjangoDatabaseError, InterfaceError) as error:
        raise StoreUnavailable(error, outcome_unknown=False) from error
    return known, len(meant) - len(known)


def each(
    meant: Sequence[Place], change: Callable[[Place], A], *, store_is_away: Callable[[BaseException], bool]
) -> list[A | RedriveRefused]:
    """Changes one after the other; one outcome each, refusals included.

    Once the database is away, the rest is not tried: the outcome of each is `StoreUnavailable`, with nothing changed.
    An error of a single one (another session's lock) stops no other.
    """
    outcomes: list[A | RedriveRefused] = []
    for place in meant:
        try:
            outcomes.append(change(place))
        except StoreUnavailable as refusal:
            outcomes.append(refusal)
            if store_is_away(refusal.cause):
                break
        except RedriveRefused as refusal:
            outcomes.append(refusal)
    last = outcomes[-1] if outcomes else None
    if isinstance(last, StoreUnavailable):
        left = len(meant) - len(outcomes)
        outcomes += [StoreUnavailable(last.cause, outcome_unknown=False) for _ in range(left)]
    return outcomes


def _place(row: Placed | tuple[uuid.UUID, int]) -> Place:
    if isinstance(row, tuple):
        workflow_id, ordinal = row
        return Place(workflow_id if isinstance(workflow_id, uuid.UUID) else uuid.UUID(str(workflow_id)), ordinal, None)
    return Place(row.workflow_id, row.ordinal, row.run)
