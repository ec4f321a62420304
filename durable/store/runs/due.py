"""Workflows with due messages or timers."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.store.connections import sql
from durable.store.runs.messages import BEGUN, START


class Due(NamedTuple):
    """A workflow with due messages or timers, and for how many seconds it has waited. `messages` is the number that the
    look has found, 0 for a wake-up or a start. Not begun: everything waits for its first turn.
    """

    owner: uuid.UUID
    waited: float
    messages: int
    begun: bool


# A signal may come before the first turn: its row says whether a workflow has begun, when its messages are already
# counted. A check per message would walk through a backlog of such messages again and again.
_OWNERS = """
SELECT told.owner, told.waited, told.messages, w.last_seq > w.run_seq FROM (
    SELECT workflow_id AS owner, {told_for} AS waited, count(*) AS messages FROM (
        SELECT m.workflow_id, m.visible_at FROM durable_message m{join}
        WHERE NOT m.parked AND {begun} AND m.visible_at <= {now}{of_message}
        ORDER BY m.visible_at, m.id LIMIT {messages}
    ) AS latest GROUP BY workflow_id
) AS told LEFT JOIN durable_workflow w ON w.id = told.owner
UNION ALL
SELECT id, {woken_for}, 0, true FROM (
    SELECT id, wake_at FROM durable_workflow
    WHERE wake_at IS NOT NULL AND wake_at <= {now}{of_timer}
    ORDER BY wake_at LIMIT {timers}
) AS woken
UNION ALL
SELECT workflow_id, {start_for}, 0, false FROM (
    SELECT m.workflow_id, m.visible_at FROM durable_message m{join}
    WHERE NOT m.parked AND {start} AND m.visible_at <= {now}{of_message}
    ORDER BY m.visible_at, m.id LIMIT {starts}
) AS starts
"""


def owners(
    connection: BaseDatabaseWrapper,
    *,
    messages: int,
    timers: int,
    starts: int,
    queues: tuple[str, ...] | None,
    but: Collection[uuid.UUID] = (),
) -> list[Due]:
    """Workflows with a due message that is not parked, or whose `wake_at` has come; looked for at most `messages`
    messages, `timers` wake-ups and `starts` starts deep, each earliest first, without what is due for those in `but`.
    One may come several times. One statement, no locks.
    """
    now, now_params = clock.now_sql(connection)
    join = of_message = of_timer = ""
    message_params, timer_params = [*now_params, *now_params], [*now_params, *now_params]
    start_params = list(message_params)
    if queues is not None:
        join = " JOIN durable_workflow w ON w.id = m.workflow_id"
        condition, params = sql.among(connection, "w.queue", queues)
        of_message, message_params, start_params = (
            f" AND {condition}",
            [*message_params, *params],
            [*start_params, *params],
        )
        condition, params = sql.among(connection, "queue", queues)
        of_timer, timer_params = f" AND {condition}", [*timer_params, *params]
    if but:
        condition, params = sql.among(connection, "m.workflow_id", but)
        of_message, message_params, start_params = (
            f"{of_message} AND NOT ({condition})",
            [*message_params, *params],
            [*start_params, *params],
        )
        condition, params = sql.among(connection, "id", but)
        of_timer, timer_params = f"{of_timer} AND NOT ({condition})", [*timer_params, *params]
    statement = _OWNERS.format(
        told_for=sql.seconds_since(connection, "min(visible_at)", now),
        woken_for=sql.seconds_since(connection, "wake_at", now),
        start_for=sql.seconds_since(connection, "visible_at", now),
        now=now,
        begun=BEGUN,
        start=START,
        join=join,
        of_message=of_message,
        of_timer=of_timer,
        messages=int(messages),
        timers=int(timers),
        starts=int(starts),
    )
    return _fetch(connection, statement, [*message_params, *timer_params, *start_params])


def rows(
    connection: BaseDatabaseWrapper, *, queues: tuple[str, ...] | None, limit: int, but: tuple[str, ...] = ()
) -> list[int]:
    """Rows that could be claimed now, except those of the queues in `but`, earliest first. No locks."""
    now, params = clock.now_sql(connection)
    claimed = queues if queues is None else tuple(queue for queue in queues if queue not in but)
    mine, more = sql.of_queues(connection, "queue", claimed, but)
    due = f"status = 'pending' AND NOT paused AND NOT waiting AND visible_after <= {now} AND {mine}"
    fetched = sql.fetch(
        connection,
        f"SELECT id FROM durable_outboxrow WHERE {due} ORDER BY visible_after, id LIMIT {int(limit)}",
        [*params, *more],
    )
    return [row[0] for row in fetched]


_AMONG = """
SELECT m.workflow_id, {told_for} AS waited, count(*), true FROM durable_message m
WHERE {of_message} AND m.visible_at <= {now} AND NOT m.parked GROUP BY m.workflow_id
UNION ALL
SELECT id, {woken_for}, 0, true FROM durable_workflow WHERE {of_timer} AND wake_at IS NOT NULL AND wake_at <= {now}
ORDER BY waited DESC LIMIT {limit}
"""


def among(connection: BaseDatabaseWrapper, workflow_ids: Iterable[uuid.UUID], *, limit: int) -> list[Due]:
    """The (begun) workflows among these with due messages or timers, however much else is due: the `limit` that have
    waited longest. One may come twice. One statement, no locks.
    """
    ids = list(workflow_ids)
    now, params = clock.now_sql(connection)
    of_message, message_params = sql.among(connection, "m.workflow_id", ids)
    of_timer, timer_params = sql.among(connection, "id", ids)
    statement = _AMONG.format(
        told_for=sql.seconds_since(connection, "min(m.visible_at)", now),
        woken_for=sql.seconds_since(connection, "wake_at", now),
        now=now,
        of_message=of_message,
        of_timer=of_timer,
        limit=int(limit),
    )
    return _fetch(connection, statement, [*params, *message_params, *params, *params, *timer_params, *params])


def _fetch(connection: BaseDatabaseWrapper, statement: str, params: sql.Params) -> list[Due]:
    return [
        Due(sql.as_uuid(owner), waited, messages, begun is None or bool(begun))
        for owner, waited, messages, begun in sql.fetch(connection, statement, params)
    ]
