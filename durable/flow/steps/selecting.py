"""Which dead letters a bulk verb means: rows, places, or a filter that is read page by page. No `atomic` in here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.outcomes import DeadLetterFilter
from durable.store import redrives

if TYPE_CHECKING:
    from durable.models import OutboxRow

    RowsOrFilter = DeadLetterFilter | Iterable["OutboxRow | tuple[uuid.UUID, int]"]
else:
    RowsOrFilter = object

Read = Callable[[Callable[[BaseDatabaseWrapper], Any]], Any]
"""How a page is read: the verb's own way of reading outside a transaction."""

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Place:
    """Where a dead letter stands. `lease` is known when a row was given; a pair means the current one."""

    workflow_id: uuid.UUID
    ordinal: int
    lease: int | None
    row_id: int | None


def each(rows_or_filter: RowsOrFilter, read: Read) -> Iterator[Place]:
    """The dead letters that are meant, oldest first for a filter. What fails anew while it is read is left out."""
    if not isinstance(rows_or_filter, DeadLetterFilter):
        for one in rows_or_filter:
            yield _place(one)
        return
    wanted = _until_now(rows_or_filter, read)
    after = None
    while True:
        page = read(partial(redrives.dead_letters, wanted=wanted, after=after, limit=_PAGE))
        for row in page:
            yield _place(row)
        if len(page) < _PAGE:
            return
        last = page[-1]
        assert last.dead_lettered_at is not None
        after = (last.dead_lettered_at, last.id)


def verdicts(rows_or_filter: RowsOrFilter, read: Read, *, eligible: int, limit: int) -> Iterator[list[str]]:
    """What the gates would say of at most `limit` of them, page by page."""
    if isinstance(rows_or_filter, DeadLetterFilter):
        wanted = _until_now(rows_or_filter, read)
        ids: Iterator[int] = iter(read(partial(redrives.ids_matching, wanted=wanted, limit=limit)))
        while page := list(islice(ids, _PAGE * 4)):
            found = read(partial(redrives.verdicts, row_ids=page, eligible=eligible))
            yield [found.get(row_id, "row_not_found") for row_id in page]
        return
    places = islice((_place(one) for one in rows_or_filter), limit)
    while chunk := list(islice(places, _PAGE)):
        keys = [(place.workflow_id, place.ordinal, place.lease) for place in chunk]
        known = read(partial(redrives.ids_of, keys=keys))
        found = read(partial(redrives.verdicts, row_ids=list(known.values()), eligible=eligible))
        yield [found.get(known.get(key, 0), "row_not_found") for key in keys]


def _until_now(wanted: DeadLetterFilter, read: Read) -> DeadLetterFilter:
    now = read(clock.database_now)
    ceiling = now if wanted.failed_before is None else min(now, wanted.failed_before)
    return replace(wanted, failed_before=ceiling)


def _place(one: OutboxRow | tuple[uuid.UUID, int]) -> Place:
    if isinstance(one, tuple):
        workflow_id, ordinal = one
        return Place(
            workflow_id if isinstance(workflow_id, uuid.UUID) else uuid.UUID(str(workflow_id)), ordinal, None, None
        )
    return Place(one.workflow_id, one.ordinal, one.lease, one.id)
