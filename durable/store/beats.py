"""Signs of life of workers. Information only: they word a cause, and decide nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel import wire
from durable.models import Worker
from durable.store import sql


def write(connection: BaseDatabaseWrapper, *, name: str, queues: Sequence[str], version: str, wakes_by: str) -> None:
    """Note that a worker is there. One statement."""
    now, params = clock.now_sql(connection)
    sql.execute(
        connection,
        "INSERT INTO durable_worker (name, queues, started_at, beat_at, version, wakes_by) "
        f"VALUES (%s, %s, {now}, {now}, %s, %s) "
        "ON CONFLICT (name) DO UPDATE SET beat_at = excluded.beat_at, queues = excluded.queues, "
        "version = excluded.version, wakes_by = excluded.wakes_by",
        [name, wire.dump(list(queues)), *params, *params, version, wakes_by],
    )


def remove(connection: BaseDatabaseWrapper, *, name: str) -> None:
    """Forget a worker that has stopped."""
    sql.execute(connection, "DELETE FROM durable_worker WHERE name = %s", [name])


def remove_silent(connection: BaseDatabaseWrapper, *, silent_for: timedelta) -> None:
    """Forget workers that have given no sign for so long."""
    since, params = clock.now_sql(connection, -silent_for)
    sql.execute(connection, f"DELETE FROM durable_worker WHERE beat_at < {since}", params)


def others(connection: BaseDatabaseWrapper, *, name: str, within: timedelta) -> list[list[str]]:
    """The queues of each other worker that gave a sign not longer ago than `within`; none stands for all queues."""
    found = (
        Worker.objects.using(connection.alias)
        .filter(beat_at__gte=clock.Now(-within))
        .exclude(name=name)
        .values_list("queues", flat=True)
    )
    return [list(queues) for queues in found]


def alive(connection: BaseDatabaseWrapper, names: Iterable[str], *, within: timedelta) -> set[str]:
    """Those of the named workers that gave a sign not longer ago than `within`."""
    return set(
        Worker.objects.using(connection.alias)
        .filter(name__in=list(names), beat_at__gte=clock.Now(-within))
        .values_list("name", flat=True)
    )
