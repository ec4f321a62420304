"""What a host may have in `DATABASES`: each of these is tried with a real worker."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import psycopg.rows
import pytest
from django.db import connection
from django.db.backends.postgresql.psycopg_any import IsolationLevel

from durable.databases import findings
from durable.flow.looks import look
from durable.outcomes import WorkflowStatus
from tests.hosting import hosted
from tests.settings import VENDOR
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows
from tests.worker.threads import running, until, until_closed

on_sqlite = pytest.mark.skipif(VENDOR != "sqlite", reason="about SQLite")
on_postgresql = pytest.mark.skipif(VENDOR != "postgresql", reason="about PostgreSQL")

WORDS = "naïve \\ '\" %s %% \u2028 日本 🙂"


def everything_works(plant: Plant) -> None:
    """Workflows with activities of every kind, retries, a timer and a signal; looked at, and proven afterwards."""
    from durable.flow.looks import prove
    from durable.models import OutboxRow

    ids = [plant.start(workflows.journey, f"{WORDS} {number}") for number in range(4)]
    ids += [plant.start(workflows.fan, f"fan {number}", 4) for number in range(3)]
    ids += [plant.enqueue(activities.fail_once, WORDS), plant.enqueue(activities.heartbeat)]
    ids += [plant.enqueue(activities.write_once, WORDS), plant.enqueue(activities.loops)]
    with running() as (worker, _):
        for workflow_id in ids[:4]:
            plant.signal(workflow_id, "go", WORDS)
        for workflow_id in ids:
            until_closed(plant, workflow_id)
        until(lambda: worker.complaints() == [])
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}
    assert f"{WORDS} 0 {WORDS}" in plant.labels()
    assert len(set(plant.labels())) == len(plant.labels())
    assert set(OutboxRow.objects.values_list("delivery_failures", flat=True)) == {0}
    assert look.health().problems == ()
    assert prove.contradictions() == []


ON_BOTH: dict[str, dict[str, Any]] = {
    "requests are atomic": {"ATOMIC_REQUESTS": True},
    "connections are kept for good": {"CONN_MAX_AGE": None},
    "connections are kept for a minute, with health checks": {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True},
    "another time zone": {"TIME_ZONE": "Asia/Kathmandu"},
    "no server-side cursors": {"DISABLE_SERVER_SIDE_CURSORS": True},
}


@pytest.mark.parametrize("entry", ON_BOTH)
def test_entries_of_the_database_that_work(plant: Plant, entry: str) -> None:
    with hosted(**ON_BOTH[entry]):
        everything_works(plant)


def test_an_engine_around_djangos_works(plant: Plant) -> None:
    """Of django-prometheus, PostGIS and their like."""
    from tests.worker.wrapped_engine.base import DatabaseWrapper

    with hosted(ENGINE="tests.worker.wrapped_engine"):
        everything_works(plant)
        assert list(findings("default")) == []
    assert DatabaseWrapper.cursors > 0


def test_a_project_without_time_zones_works(plant: Plant, settings: Any) -> None:
    settings.USE_TZ = False
    with hosted():
        everything_works(plant)


POSTGRESQL: dict[str, dict[str, Any]] = {
    "server-side binding": {"server_side_binding": True},
    "autocommit of the driver": {"autocommit": True},
    "no autocommit of the driver": {"autocommit": False},
    "prepared statements": {"prepare_threshold": 0},
    "prepared statements bound on the server": {"prepare_threshold": 0, "server_side_binding": True},
    "the driver's own cursors": {"cursor_factory": psycopg.Cursor},
    "sessions of another manner": {
        "options": "-c DateStyle=SQL,DMY -c IntervalStyle=iso_8601 -c standard_conforming_strings=off "
        "-c escape_string_warning=off -c transform_null_equals=on -c synchronous_commit=off"
    },
    "time limits that are wide": {
        "options": "-c statement_timeout=30s -c idle_in_transaction_session_timeout=30s -c transaction_timeout=60s "
        "-c lock_timeout=3s"
    },
    "sessions that end when idle": {"options": "-c idle_session_timeout=300ms"},
    "plans without an index, and generic": {
        "options": "-c enable_indexscan=off -c enable_bitmapscan=off -c plan_cache_mode=force_generic_plan",
        "prepare_threshold": 0,
    },
    "the network, a primary, a name, and an encoding that Django overrules": {
        "keepalives_idle": 10,
        "connect_timeout": 2,
        "tcp_user_timeout": 10_000,
        "target_session_attrs": "read-write",
        "application_name": "shop",
        "client_encoding": "LATIN1",
    },
}


@on_postgresql
@pytest.mark.parametrize("options", POSTGRESQL)
def test_options_of_postgresql_that_work(plant: Plant, settings: Any, options: str) -> None:
    """With a listener, which has the same options."""
    settings.DURABLE = settings.DURABLE | {"NOTIFY": True}
    with hosted(options=POSTGRESQL[options]):
        everything_works(plant)


@on_postgresql
@pytest.mark.parametrize(
    "options",
    [
        {"isolation_level": IsolationLevel.READ_UNCOMMITTED},
        {"isolation_level": IsolationLevel.REPEATABLE_READ},
        {"isolation_level": IsolationLevel.SERIALIZABLE},
        {"options": "-c default_transaction_isolation=serializable"},
    ],
    ids=["read uncommitted", "repeatable read", "serializable", "serializable by the session"],
)
def test_the_engine_itself_is_read_committed_whatever_the_host_wants(plant: Plant, options: dict[str, Any]) -> None:
    """No result is given up because its acknowledgement could not be serialized with others."""
    from durable.models import OutboxRow

    with hosted(options=options):
        ids = [plant.start(workflows.fan, f"fan {number}", 10) for number in range(10)]
        with running():
            for workflow_id in ids:
                until_closed(plant, workflow_id)
        assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}
        assert len(plant.labels()) == len(set(plant.labels())) == 100
        assert set(OutboxRow.objects.values_list("deliveries", "delivery_failures")) == {(1, 0)}


@on_postgresql
def test_a_role_that_is_assumed_a_schema_and_a_service_file_work(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = connection.settings_dict
    service = tmp_path / "services"
    service.write_text(f"[shop]\nhost={entry['HOST']}\nuser={entry['USER']}\ndbname={entry['NAME']}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    with connection.cursor() as cursor:
        cursor.execute("DROP ROLE IF EXISTS shop_worker")
        cursor.execute("CREATE ROLE shop_worker")
        cursor.execute("GRANT pg_read_all_data, pg_write_all_data TO shop_worker")
    options = {"service": "shop", "assume_role": "shop_worker", "options": "-c search_path=public,pg_catalog"}
    with hosted(options=options, NAME="", HOST="", USER=""):
        everything_works(plant)
    with connection.cursor() as cursor:
        cursor.execute("DROP OWNED BY shop_worker")
        cursor.execute("DROP ROLE shop_worker")


class Counting(sqlite3.Connection):
    """A connection class of the host's own."""


class Rows(sqlite3.Connection):
    """A connection whose rows have names."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row_factory = sqlite3.Row


WAL = "PRAGMA journal_mode=WAL"
SQLITE: dict[str, dict[str, Any]] = {
    "deferred": {"transaction_mode": "DEFERRED", "isolation_level": "EXCLUSIVE"},
    "exclusive": {"transaction_mode": "EXCLUSIVE", "cached_statements": 0},
    "a rollback journal": {"init_command": "PRAGMA journal_mode=DELETE"},
    "pragmas": {
        "init_command": f"{WAL}; PRAGMA read_uncommitted=1; PRAGMA reverse_unordered_selects=1; PRAGMA foreign_keys=0; "
        "PRAGMA synchronous=OFF; PRAGMA recursive_triggers=1; PRAGMA temp_store=MEMORY; PRAGMA busy_timeout=10000"
    },
    "a huge timeout": {"timeout": 3600},
    "what Django overrules": {"check_same_thread": True, "uri": False},
    "no types detected, and a connection class": {"detect_types": 0, "factory": Counting},
    "named rows": {"factory": Rows},
}


@on_sqlite
@pytest.mark.filterwarnings("ignore:The `check_same_thread` option")
@pytest.mark.parametrize("options", SQLITE)
def test_options_of_sqlite_that_work(plant: Plant, options: str) -> None:
    with hosted(options=SQLITE[options]):
        everything_works(plant)
