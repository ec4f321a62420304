"""Reads what is due for workflows that are about to turn, without more of it in memory than a batch can use.

First come the heads: the messages and their lengths. Then the payloads of as many as fit into one budget for all
workflows of the batch. However much waits for one workflow, the others are read, and no process has to hold all of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.history.events import MessageKind
from durable.kernel.history.known import KINDS, beyond_message
from durable.models.fields import moment_from_database
from durable.store.connections import sql

HEADS: Final = 100
"""How many messages of one workflow a batch looks at."""

BUDGET: Final = 4 * 1024 * 1024
"""How many bytes of payload a batch reads; the last one may exceed it, so that each one is read at some time."""

_AT_ONCE: Final = 1024
"""A payload up to this many bytes comes with its head: a second query would cost more."""

_HEAVY: Final = 64 * 1024
"""A workflow whose next message is shorter than this does not wait for others with longer ones."""

_KNOWN: Final = ", ".join(f"'{kind}'" for kind in sorted(KINDS))

_COST: Final = 256
"""What a message takes beside its payload."""


@dataclass(frozen=True, slots=True)
class DueMessage:
    """A message as a turn reads it."""

    id: int
    workflow_id: uuid.UUID
    run: int
    kind: MessageKind
    ordinal: int | None
    payload: str = field(repr=False)
    due: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewerMessage:
    """A message that only a newer engine can read; `words` say what is not known of it."""

    id: int
    words: str
    due: datetime
    created_at: datetime


@dataclass(slots=True)
class Inbox:
    """What is read for one workflow, in the order (due, id), including a start even before it is due.

    `more`: there are more due messages, for which there was no room. `newer`: those of a kind that only a newer engine
    knows, put off or not, whose payloads are not read; all others have to wait with them, also those that come later.
    """

    messages: list[DueMessage] = field(default_factory=list)
    more: bool = False
    newer: list[NewerMessage] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether something is due, but none of it is read this time."""
        return self.more and not self.messages and not self.newer


class _Head(NamedTuple):
    id: int
    owner: uuid.UUID
    run: int
    kind: str
    ordinal: int | None
    size: int
    payload: str | None
    due: datetime
    created_at: datetime


_in_order = attrgetter("due", "id")


@dataclass(slots=True)
class Selection:
    """The heads of what is due, and which of it fits into the budget."""

    inboxes: dict[uuid.UUID, Inbox]
    chosen: list[_Head]
    heaviest: uuid.UUID | None = None
    """The workflow with the longest payloads that are still to be read. None: all have been read."""


def look(
    connection: BaseDatabaseWrapper,
    owners: Collection[uuid.UUID],
    *,
    unbegun: Collection[uuid.UUID],
    full: Collection[uuid.UUID],
) -> Selection:
    """Looks at what is due for live workflows. Parked messages are included: the caller is about to turn these.

    Of the `unbegun` among them the start is looked for, of those that are `full` no signals: requests to cancel come
    first. One statement, to be run after the one that read, or locked, the workflows' rows.
    """
    if not owners:
        return Selection({}, [])
    selection = _choose(_heads(connection, owners, unbegun, full))
    heavy: dict[uuid.UUID, int] = {}
    for head in selection.chosen:
        if head.payload is None and not beyond_message(head.kind):
            heavy[head.owner] = heavy.get(head.owner, 0) + head.size
    selection.heaviest = max(heavy, key=lambda owner: heavy[owner], default=None)
    return selection


def read(connection: BaseDatabaseWrapper, selection: Selection) -> dict[uuid.UUID, Inbox]:
    """Reads the chosen payloads. One statement if any of them is long, else none. If no lock is held, and one of them
    was consumed since the look, nothing of its workflow is read.
    """
    ids = [head.id for head in selection.chosen if head.payload is None and not beyond_message(head.kind)]
    payloads: dict[int, str] = {}
    gone: set[uuid.UUID] = set()
    if ids:
        condition, params = sql.among(connection, "id", ids)
        payloads = dict(sql.fetch(connection, f"SELECT id, payload FROM durable_message WHERE {condition}", params))
    for head in sorted(selection.chosen, key=_in_order):
        inbox = selection.inboxes[head.owner]
        beyond = beyond_message(head.kind)
        if beyond:
            words = f"Message {head.id} has {beyond}, which this version of durable does not know."
            inbox.newer.append(NewerMessage(head.id, words, head.due, head.created_at))
            continue
        payload = payloads.get(head.id) if head.payload is None else head.payload
        if payload is None:
            gone.add(head.owner)
            continue
        inbox.messages.append(
            DueMessage(
                id=head.id,
                workflow_id=head.owner,
                run=head.run,
                kind=MessageKind(head.kind),
                ordinal=head.ordinal,
                payload=payload,
                due=head.due,
                created_at=head.created_at,
            )
        )
    return selection.inboxes | {owner: Inbox(more=True) for owner in gone}


def unchanged(connection: BaseDatabaseWrapper, messages: Iterable[DueMessage]) -> set[int]:
    """Which of these messages, read before their workflows were locked, are unchanged: not consumed or re-encrypted.
    One statement.
    """
    payloads = {message.id: message.payload for message in messages}
    if not payloads:
        return set()
    condition, params = sql.among(connection, "id", payloads)
    rows = sql.each(connection, f"SELECT id, payload FROM durable_message WHERE {condition}", params)
    return {id for id, payload in rows if payloads[id] == payload}


def _choose(heads: Iterable[_Head]) -> Selection:
    """The first message of each workflow before the second of any, short ones first; then the longest-waiting.

    A workflow gets the first of its messages, without gaps.
    """
    by_owner: dict[uuid.UUID, list[_Head]] = {}
    for head in sorted(heads, key=_in_order):
        by_owner.setdefault(head.owner, []).append(head)
    selection = Selection({owner: Inbox() for owner in by_owner}, [])
    ranked = []
    for owner, mine in by_owner.items():
        selection.chosen += [head for head in mine if head.kind == MessageKind.START]
        others = [head for head in mine if head.kind != MessageKind.START]
        selection.inboxes[owner].more = len(others) > HEADS
        ranked += [(place, head.size > _HEAVY, head.due, head.id, head) for place, head in enumerate(others[:HEADS])]
    spent = 0
    for *_, head in sorted(ranked):
        if spent < BUDGET:
            selection.chosen.append(head)
            spent += head.size + _COST
        else:
            selection.inboxes[head.owner].more = True
    return selection


_FIRST = """
SELECT head.* FROM unnest(%s::uuid[]) AS given(owner) CROSS JOIN LATERAL (
    SELECT {columns} FROM durable_message m WHERE m.workflow_id = given.owner AND {which} ORDER BY {order} LIMIT {limit}
) AS head
"""
_SQLITE_FIRST = """
SELECT {columns} FROM (
    SELECT m.id, row_number() OVER (PARTITION BY m.workflow_id ORDER BY {order}) AS place
    FROM durable_message m WHERE m.workflow_id IN (SELECT value FROM json_each(%s)) AND {which}
) AS latest JOIN durable_message m ON m.id = latest.id WHERE latest.place <= {limit}
"""


def _heads(
    connection: BaseDatabaseWrapper,
    owners: Collection[uuid.UUID],
    unbegun: Collection[uuid.UUID],
    full: Collection[uuid.UUID],
) -> list[_Head]:
    now, now_params = clock.now_sql(connection)
    length = sql.size(connection, "m.payload")
    columns = (
        f"m.id, m.workflow_id, m.run, m.kind, m.ordinal, {length}, "
        f"CASE WHEN {length} <= {_AT_ONCE} THEN m.payload END, "
        f"{sql.moment(connection, 'm.visible_at')} AS due, {sql.moment(connection, 'm.created_at')} AS made"
    )
    first = (_FIRST if sql.is_postgresql(connection) else _SQLITE_FIRST).format(
        columns=columns, which="{which}", order="{order}", limit=HEADS + 1
    )
    is_due = f"m.kind <> 'start' AND (m.visible_at <= {now} OR m.kind NOT IN ({_KNOWN}))"
    in_order = "m.visible_at, m.id"
    arms: list[str] = []
    params: sql.Params = []
    plain = [owner for owner in owners if owner not in full]
    if plain:
        arms.append(first.format(which=is_due, order=in_order))
        params += _arm(connection, plain, now_params)
    if full:
        arms.append(
            first.format(
                which=f"{is_due} AND m.kind <> 'signal'", order=f"(m.kind IN ('cancel', 'terminate')) DESC, {in_order}"
            )
        )
        params += _arm(connection, full, now_params)
    if unbegun:
        condition, of_unbegun = sql.among(connection, "m.workflow_id", unbegun)
        arms.append(f"SELECT {columns} FROM durable_message m WHERE m.kind = 'start' AND {condition}")
        params += of_unbegun
    rows = sql.fetch(connection, " UNION ALL ".join(arms), params)
    return [
        _Head(id, sql.as_uuid(owner), run, kind, ordinal, size, payload, _moment(due), _moment(made))
        for id, owner, run, kind, ordinal, size, payload, due, made in rows
    ]


def _arm(connection: BaseDatabaseWrapper, owners: Iterable[uuid.UUID], now_params: sql.Params) -> sql.Params:
    _, of_owners = sql.among(connection, "id", owners)
    return [*of_owners, *now_params]


def _moment(value: Any) -> datetime:
    moment = moment_from_database(value)
    assert moment is not None
    return moment
