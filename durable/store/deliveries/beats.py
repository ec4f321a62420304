"""Heartbeats of workers. Information only: they determine the wording of a cause, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.payloads import wire
from durable.models import Worker
from durable.store.connections import sql


def write(
    connection: BaseDatabaseWrapper,
    *,
    name: str,
    queues: Sequence[str],
    version: str,
    wakes_by: str,
    up_for: timedelta | None,
    cluster: str = "",
) -> None:
    """Records that a worker is there. One statement. `up_for`: this is the first sign of a process that has been
    running for so long; a row of this name is that of a former process, and becomes this one's. None: a later sign.
    `cluster`: it is a process of that one.
    """
    now, params = clock.now_sql(connection)
    started, started_params = (now, params) if up_for is None else clock.now_sql(connection, -up_for)
    keeps = "" if up_for is None else ", started_at = excluded.started_at"
    sql.execute(
        connection,
        "INSERT INTO durable_worker (name, queues, started_at, beat_at, version, wakes_by, cluster) "
        f"VALUES (%s, %s, {started}, {now}, %s, %s, %s) "
        "ON CONFLICT (name) DO UPDATE SET beat_at = excluded.beat_at, queues = excluded.queues, "
        f"version = excluded.version, wakes_by = excluded.wakes_by, "
        f"cluster = excluded.cluster{keeps}",
        [name, wire.dump(list(queues)), *started_params, *params, version, wakes_by, cluster],
    )


def remove(connection: BaseDatabaseWrapper, *, name: str) -> None:
    """Forgets a worker that has stopped."""
    sql.execute(connection, "DELETE FROM durable_worker WHERE name = %s", [name])


def remove_silent(connection: BaseDatabaseWrapper, *, silent_for: timedelta) -> None:
    """Deletes workers that have been silent for this long; one whose row is locked is deleted later."""
    since, params = clock.now_sql(connection, -silent_for)
    free = f"SELECT name FROM durable_worker WHERE beat_at < {since}{sql.locking(connection, 'UPDATE SKIP LOCKED')}"
    sql.execute(connection, f"DELETE FROM durable_worker WHERE name IN ({free})", params)


def others(connection: BaseDatabaseWrapper, *, name: str, within: timedelta) -> list[list[str]]:
    """The queues of each other worker with a heartbeat within `within`; an empty list means all queues. Processes of
    clusters claim nothing, and do not count.
    """
    queues_of_each = (
        Worker.objects.using(connection.alias)
        .filter(beat_at__gte=clock.Now(-within), cluster="")
        .exclude(name=name)
        .values_list("queues", flat=True)
    )
    return [list(queues) for queues in queues_of_each]


def alive(connection: BaseDatabaseWrapper, names: Iterable[str], *, within: timedelta) -> dict[str, datetime | None]:
    """The named workers with a heartbeat within `within`, each with the time since which the process of this name has
    been running: rows claimed under the name before that were an earlier process's. None: its heartbeats do not say.
    """
    rows = Worker.objects.using(connection.alias).filter(name__in=list(names), beat_at__gte=clock.Now(-within))
    signs = rows.values_list("name", "started_at", "beat_at")
    return {name: started_at if started_at < beat_at else None for name, started_at, beat_at in signs}


def of_cluster(connection: BaseDatabaseWrapper, cluster: str, *, within: timedelta) -> int:
    """The number of processes of a cluster with a heartbeat within `within`."""
    return Worker.objects.using(connection.alias).filter(cluster=cluster, beat_at__gte=clock.Now(-within)).count()
