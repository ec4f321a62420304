"""The stage of every performance: settings, clock, registry and patience."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from django.db import connections
from django.test import override_settings

from durable import clock
from durable.flow.transactions import transaction
from durable.flow.turns import turn
from durable.kernel.definitions.definition import ActivityDefinition
from durable.kernel.definitions.registry import registry
from durable.worker.loops import claims
from tests.crashpoints import cases
from tests.crashpoints.wire import ALIAS

BEGINS_AT = datetime(2030, 1, 1, 12, tzinfo=UTC)
SETTINGS: dict[str, Any] = {
    "LEASE_FOR": timedelta(minutes=1),
    "DELIVERY_ATTEMPTS": 2,
    "DELIVERY_BACKOFF": (timedelta(milliseconds=100), 1.0, timedelta(milliseconds=100)),
    "REARM_PER_SECOND": None,
    "REDRIVE_PER_SECOND": None,
    "NOTIFY": True,
    "RECONCILE_EVERY": timedelta(microseconds=1),
    "UNKNOWN_HANDLER_FOR": timedelta(seconds=8),
}
_OF_THE_ENGINE = ("workitem", "message", "failedattempt", "staffaction", "event", "outboxrow", "workflow", "worker")
TABLES = (*(f"durable_{table}" for table in _OF_THE_ENGINE), "ledger_entry")


@contextmanager
def set_up(*, at: datetime = BEGINS_AT) -> Iterator[None]:
    """Time stands still unless the story moves it, the workers know the cast, and nobody waits in real time.

    A frozen clock asks PostgreSQL for no time. The statement belongs to what may fail, so it is sent all the same.
    """
    database_now = clock.database_now

    def asking(connection: Any) -> datetime:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT statement_timestamp() AT TIME ZONE 'UTC'")
        return database_now(connection)

    with ExitStack() as stage:
        logging.disable(logging.CRITICAL)
        stage.callback(logging.disable, logging.NOTSET)
        stage.enter_context(override_settings(DURABLE=SETTINGS))
        stage.enter_context(clock.frozen(at))
        stage.enter_context(registry.isolated())
        for definition in cases.KNOWN:
            if isinstance(definition, ActivityDefinition):
                registry.add_activity(definition)
            else:
                registry.add_workflow(definition)
        for place, name, value in (
            (clock, "database_now", asking),
            (transaction, "_FIRST_WAIT", 0.0),
            (turn, "_CODE_FOR", 3600.0),
            # An idle worker looks for suspects once a second of real time; here the reconciler's word is all it hears.
            (claims, "SUSPECTS_LOOK", float("inf")),
        ):
            stage.enter_context(mock.patch.object(place, name, value))
        yield


_sweeps = itertools.count(1)


def sweep() -> None:
    """Empty the tables of the engine, and the ledger. What is deleted slows PostgreSQL down until it is vacuumed."""
    with connections[ALIAS].cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"DELETE FROM {table}")
        if connections[ALIAS].vendor == "postgresql" and next(_sweeps) % 20 == 0:
            cursor.execute(f"VACUUM {', '.join(TABLES)}")


def write_time(folder: Path) -> None:
    """Keep what time it is where a process that comes later finds it: it does not go back for the death of one."""
    (folder / "time").write_text(clock.host_now().isoformat())


def read_time(folder: Path) -> datetime:
    """What time it was when the last process looked."""
    kept = folder / "time"
    return datetime.fromisoformat(kept.read_text()) if kept.exists() else BEGINS_AT
