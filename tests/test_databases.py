"""What a host may not have in `DATABASES`, or has at a price: each is named with its cure, or refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import psycopg.rows
import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError
from django.db import connections

from durable import checks
from durable.databases import Weight, findings, pool_findings, postgresql, refuse_unfit, server_findings
from durable.store.connections import unpooled
from tests.conftest import ROOT
from tests.hosting import hosted
from tests.settings import VENDOR


def _name(value: object) -> str:
    """The same in every process that collects: no address of a function."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))[:50]


on_sqlite = pytest.mark.skipif(VENDOR != "sqlite", reason="about SQLite")
on_postgresql = pytest.mark.skipif(VENDOR != "postgresql", reason="about PostgreSQL")
WAL = "PRAGMA journal_mode=WAL"


def refused(**changed: Any) -> list[str]:
    with hosted(**changed):
        found = [fault for fault in findings("default") if fault.weight is Weight.REFUSED]
        assert all(fault.cure and "'default'" in fault.text for fault in found)
        if found:
            for name in ("runworker", "durable"):
                arguments = ["--burst"] if name == "runworker" else ["health"]
                with pytest.raises(CommandError) as caught:
                    call_command(name, *arguments, skip_checks=True)
                assert caught.value.returncode == 2
                assert found[0].text in str(caught.value)
                assert found[0].cure in str(caught.value)
            assert {message.id for message in checks.check_alias(None)} >= {fault.id for fault in found}
        return [fault.text for fault in found]


def warned(**changed: Any) -> list[str]:
    with hosted(**changed):
        refuse_unfit(for_workers=True)
        return [fault.id for fault in (*findings("default"), *pool_findings())]


@pytest.mark.django_db(transaction=True)
def test_a_database_that_commits_nothing_by_itself_is_refused() -> None:
    [text] = refused(AUTOCOMMIT=False)
    assert "['AUTOCOMMIT'] is False" in text


@on_postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"row_factory": psycopg.rows.dict_row}, "row_factory"),
        ({"row_factory": psycopg.rows.namedtuple_row}, "row_factory"),
        ({"cursor_factory": psycopg.RawCursor}, "RawCursor"),
        ({"target_session_attrs": "standby"}, "'standby'"),
        ({"target_session_attrs": "prefer-standby"}, "'prefer-standby'"),
        ({"isolation_level": 17}, "isolation_level"),
        ({"options": "-c default_transaction_read_only=on"}, "default_transaction_read_only"),
        ({"options": "-cdefault_transaction_read_only=true -c x.y=1"}, "default_transaction_read_only"),
        ({"options": "--default-transaction-read-only=1"}, "default_transaction_read_only"),
        ({"options": "-c array_nulls=off"}, "array_nulls"),
    ],
    ids=_name,
)
def test_options_of_postgresql_by_which_nothing_works_are_refused_in_words(options: Any, words: str) -> None:
    [text] = refused(options=options)
    assert words in text


@on_sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"autocommit": True}, "autocommit"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"init_command": f"{WAL}; PRAGMA query_only=1"}, "lets nobody write"),
        ({"init_command": f"{WAL};pragma main.query_only(ON)"}, "lets nobody write"),
        ({"init_command": f"{WAL}; PRAGMA locking_mode = EXCLUSIVE"}, "locks every other"),
        ({"init_command": "PRAGMA journal_mode='OFF'"}, "roll back"),
        ({"init_command": "PRAGMA journal_mode=MEMORY"}, "killed while it commits"),
    ],
    ids=_name,
)
def test_options_of_sqlite_by_which_nothing_works_are_refused_in_words(options: Any, words: str) -> None:
    [text] = refused(options=options)
    assert words in text


@on_sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("part", ["mode=ro", "immutable=1", "nolock=1", "vfs=unix-none", "cache=shared"])
def test_names_of_sqlite_files_by_which_nothing_works_are_refused(part: str) -> None:
    name = connections["default"].settings_dict["NAME"]
    [text] = refused(NAME=f"file:{name}?{part}")
    assert part in text


@on_sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", [":memory:", "file:shop?mode=memory&cache=shared", "file::memory:"])
def test_a_worker_refuses_a_database_in_memory_and_checks_do_not(name: str) -> None:
    """The suites of hosts run on such, in one thread."""
    with hosted(NAME=name):
        assert checks.check_alias(None) == []
        refuse_unfit()
        with pytest.raises(CommandError, match="is in memory"):
            call_command("runworker", "--burst", skip_checks=True)


@on_sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"init_command": f"{WAL}; PRAGMA synchronous=OFF"}, ["durable.W007"]),
        ({"init_command": f"{WAL}; PRAGMA synchronous = 0"}, ["durable.W007"]),
        ({"init_command": f"{WAL}; PRAGMA busy_timeout=100"}, ["durable.W003"]),
        ({"timeout": 0}, ["durable.W003"]),
        ({"autocommit": -1}, []),
        ({"timeout": 3600}, ["durable.W003"]),
        ({"init_command": "PRAGMA journal_mode=TRUNCATE"}, ["durable.W002"]),
    ],
    ids=str,
)
def test_options_of_sqlite_that_have_a_price_are_warned_about(options: Any, ids: list[str]) -> None:
    assert warned(options=options) == ids


@on_postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"options": "-c synchronous_commit=off"}, ["durable.W007"]),
        ({"options": "-c statement_timeout=1000"}, ["durable.W009"]),
        ({"options": "-c idle_in_transaction_session_timeout=2s"}, ["durable.W009"]),
        ({"options": "-c transaction_timeout=500ms"}, ["durable.W009"]),
        ({"options": "-c statement_timeout=1min"}, []),
        ({"options": "-c default_transaction_isolation=repeatable\\ read"}, ["durable.W004"]),
        ({"isolation_level": psycopg.IsolationLevel.SERIALIZABLE}, ["durable.W004"]),
        ({"isolation_level": psycopg.IsolationLevel.READ_UNCOMMITTED}, []),
    ],
    ids=str,
)
def test_options_of_postgresql_that_have_a_price_are_warned_about(options: Any, ids: list[str]) -> None:
    assert warned(options=options) == ids


@on_postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("pool", "entry", "words"),
    [
        (True, {"CONN_HEALTH_CHECKS": True}, ["has at most 4 connections, and a worker runs 16"]),
        ({"min_size": 2, "max_size": 15}, {"CONN_HEALTH_CHECKS": True}, ["has at most 15 connections"]),
        ({"max_size": 16}, {"CONN_HEALTH_CHECKS": True}, []),
        ({"max_size": 16}, {}, ["after a restart of the server"]),
        ({"min_size": 4, "max_size": 2}, {}, ["['OPTIONS']['pool'] is {'min_size': 4, 'max_size': 2}"]),
        ({"check": print}, {"CONN_HEALTH_CHECKS": True}, ["got multiple values for keyword argument 'check'"]),
        ({"configure": print}, {"CONN_HEALTH_CHECKS": True}, ["multiple values for keyword argument 'configure'"]),
        ({"size": 4}, {}, ["['OPTIONS']['pool'] is {'size': 4}"]),
        ({"max_size": 16}, {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}, ["CONN_MAX_AGE, which Django refuses"]),
    ],
    ids=str,
)
def test_a_pool_is_compared_with_what_handlers_will_ask_of_it(pool: Any, entry: Any, words: list[str]) -> None:
    """Faults K1."""
    with hosted(options={"pool": pool}, **entry):
        found = [message for message in checks.check_alias(None) if message.id in ("durable.W006", "durable.E009")]
    assert len(found) == len(words)
    assert all(word in message.msg for word, message in zip(words, found, strict=True))


@on_postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("pool", "entry", "words"),
    [
        ({"size": 4}, {}, "unexpected keyword argument 'size'"),
        (True, {"CONN_MAX_AGE": 60}, "CONN_MAX_AGE, which Django refuses"),
    ],
    ids=str,
)
def test_a_pool_that_cannot_be_made_is_refused_in_words_wherever_one_asks(pool: Any, entry: Any, words: str) -> None:
    """Asking the server would end in the traceback of who cannot make the pool."""
    with hosted(options={"pool": pool}, **entry):
        with pytest.raises(SystemCheckError, match=words):
            call_command("check", "--database", "default")
        for command in (("runworker", "--burst"), ("durable", "health")):
            with pytest.raises(CommandError, match=words) as caught:
                call_command(*command, skip_checks=True)
            assert caught.value.returncode == 2


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_the_advice_about_a_small_pool_keeps_what_the_host_has_there() -> None:
    with hosted(options={"pool": {"timeout": 5}}, CONN_HEALTH_CHECKS=True):
        [message] = checks.check_alias(None)
    assert message.hint is not None
    assert "['pool'] = {'timeout': 5, 'max_size': 16}, or lower CONCURRENCY" in message.hint


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_the_server_is_asked_for_what_the_settings_do_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role's own values, or the environment's."""
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on -c statement_timeout=900ms")
    with hosted():
        assert checks.check_alias(None) == []
        found = checks.check_server(None, databases=["default"])
        assert [message.id for message in found] == ["durable.E009", "durable.W009"]
        assert "default_transaction_read_only" in found[0].msg
    with hosted(options={"options": "-c statement_timeout=900ms"}):
        assert [message.id for message in checks.check_alias(None)] == ["durable.W009"]
        assert checks.check_server(None, databases=["default"]) == [], "and what the settings say is said once"


@pytest.mark.django_db(transaction=True)
def test_rows_that_are_no_tuples_are_found_by_looking_at_one() -> None:
    class Wrapper:
        alias, vendor = "default", "sqlite"

        def cursor(self) -> Any:
            return self

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *args: object) -> None: ...

        def execute(self, sql: str, params: Any) -> None: ...

        def fetchone(self) -> Any:
            return {"one": "one", "2": 2}

    [fault] = server_findings(Wrapper())  # type: ignore[arg-type]
    assert "needs tuples" in fault.text
    assert list(server_findings(connections["default"])) == []


def test_a_standby_is_told_from_a_primary_by_the_server() -> None:
    class Standby:
        alias, vendor = "default", "postgresql"
        rows = [("one", 2), tuple("on" if name == "in_hot_standby" else None for name in postgresql.ASKED)]

        def cursor(self) -> Any:
            return self

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *args: object) -> None: ...

        def execute(self, sql: str, params: Any) -> None: ...

        def fetchone(self) -> Any:
            return self.rows.pop(0)

    [fault] = server_findings(Standby())  # type: ignore[arg-type]
    assert (fault.weight, "is a read-only standby" in fault.text) == (Weight.REFUSED, True)
    assert "target_session_attrs" in fault.cure


@pytest.mark.django_db(transaction=True)
def test_an_engine_of_another_database_that_is_not_there_stops_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warehouse whose driver only production has."""
    elsewhere = {**connections.settings["default"], "ENGINE": "nowhere.at.all", "OPTIONS": {}}
    monkeypatch.setitem(connections.settings, "warehouse", elsewhere)
    assert checks.check_alias(None) == []
    assert unpooled.pools() == {}
    refuse_unfit(for_workers=True)


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_a_worker_waits_in_words_where_the_server_lets_nobody_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby becomes a primary, so the worker stays, and is red."""
    from durable.worker.process.worker import Worker
    from tests.waiting import PATIENCE, in_thread
    from tests.worker.threads import until

    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    with hosted():
        worker = Worker()
        future = in_thread(worker.run)
        try:
            until(lambda: any("begins its transactions read-only" in text for text in worker.complaints()))
            monkeypatch.delenv("PGOPTIONS")
            until(lambda: worker.complaints() == [])
        finally:
            worker.stop()
            future.result(PATIENCE)


WITH_PSYCOPG2 = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("psycopg", "psycopg_pool"):
            raise ImportError(f"no {name} here")

sys.meta_path.insert(0, Absent())
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", *sys.argv[1:]])
"""


@on_postgresql
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check"], 1),
        (["runworker", "--burst"], 1),
        (["runworker", "--burst", "--skip-checks"], 2),
        (["durable", "--skip-checks", "health"], 2),
    ],
    ids=["check", "runworker", "runworker unchecked", "durable unchecked"],
)
def test_psycopg2_is_refused_by_a_check_and_by_the_commands(
    subprocess_environment: dict[str, str], arguments: list[str], code: int
) -> None:
    """Faults K3: it gives no retries that can be relied on, and no LISTEN."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_PSYCOPG2, *arguments],
        cwd=ROOT,
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "The driver of the database 'default' is psycopg2 2.9" in done.stderr
    assert "pip install 'psycopg[binary]'" in done.stderr
    assert "durable.E010" in done.stderr


def test_notes_of_two_databases_of_two_services_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their `NAME` is the same: none."""
    from durable.worker.loops import notes

    folders = set()
    for service in ("one", "two"):
        entry = {**connections["default"].settings_dict, "NAME": "", "OPTIONS": {"service": service}}
        monkeypatch.setattr(connections["default"], "settings_dict", entry)
        folders.add(notes.folder_of("default", tmp_path))
    assert len(folders) == 2


def test_what_the_test_suite_itself_has_is_fine() -> None:
    refuse_unfit(for_workers=True)
    assert os.environ.get("PGOPTIONS") is None
