"""Who has something to turn for: messages and wake-ups whose moment has come."""

from __future__ import annotations

import uuid

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.store import sql

_DUE = """
SELECT workflow_id, {told_for} FROM (
    SELECT m.workflow_id, m.visible_at FROM durable_message m{join}
    WHERE NOT m.parked AND m.visible_at <= {now}{of_message}
    ORDER BY m.visible_at, m.id LIMIT {messages}
) AS told GROUP BY workflow_id
UNION ALL
SELECT id, {woken_for} FROM (
    SELECT id, wake_at FROM durable_workflow
    WHERE wake_at IS NOT NULL AND wake_at <= {now}{of_timer}
    ORDER BY wake_at LIMIT {timers}
) AS woken
"""


def owners(
    connection: BaseDatabaseWrapper, *, messages: int, timers: int, queues: tuple[str, ...] | None
) -> list[tuple[uuid.UUID, float]]:
    """Workflows with a due message that is not parked, or whose `wake_at` has come, each with the seconds since then;
    looked for at most `messages` messages and `timers` wake-ups deep, earliest first. One may come twice. One
    statement, no locks.
    """
    now, now_params = clock.now_sql(connection)
    join = of_message = of_timer = ""
    told, woken = [*now_params, *now_params], [*now_params, *now_params]
    if queues is not None:
        join = " JOIN durable_workflow w ON w.id = m.workflow_id"
        condition, params = sql.among(connection, "w.queue", queues)
        of_message, told = f" AND {condition}", [*told, *params]
        condition, params = sql.among(connection, "queue", queues)
        of_timer, woken = f" AND {condition}", [*woken, *params]
    statement = _DUE.format(
        told_for=sql.seconds_since(connection, "min(visible_at)", now),
        woken_for=sql.seconds_since(connection, "wake_at", now),
        now=now,
        join=join,
        of_message=of_message,
        of_timer=of_timer,
        messages=int(messages),
        timers=int(timers),
    )
    return [(sql.as_uuid(owner), seconds) for owner, seconds in sql.fetch(connection, statement, [*told, *woken])]
