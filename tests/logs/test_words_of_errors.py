"""A database quotes the values that it refuses. Where lines are not to have what errors say, they do not have that."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction

import durable
from durable import logbook
from durable.logs import get_logger, words
from durable.models import Worker
from durable.scope import Scope
from tests import factories
from tests.settings import VENDOR

pytestmark = pytest.mark.django_db

CANARY = "canary-078-05-1120"
STATE = "23505" if VENDOR == "postgresql" else "SQLITE_CONSTRAINT_PRIMARYKEY"


def refused() -> IntegrityError:
    """What the database under test says of a second row with one key, with a value as a server would quote it."""
    factories.WorkerFactory(name=CANARY)
    worker = Worker(name=CANARY, queues="[]", version="", started_at=factories.now(), beat_at=factories.now())
    with pytest.raises(IntegrityError) as raised, transaction.atomic():
        Worker.objects.bulk_create([worker])
    raised.value.args = (f"{raised.value}: {CANARY}",)  # SQLite quotes no values by itself
    return raised.value


@pytest.mark.parametrize("which", ["full", "type"])
def test_a_line_says_class_and_code_of_a_database_error_and_its_text_only_where_lines_have_texts(
    settings: Any, caplog: pytest.LogCaptureFixture, which: str
) -> None:
    settings.DURABLE = {"LOG_FAILURES": which}
    error = refused()
    told = " ".join(str(error).split())
    assert words(error) == (f"IntegrityError ({STATE})" if which == "type" else f"IntegrityError: {told}")
    log = get_logger("durable.tests")
    with caplog.at_level(logging.DEBUG, "durable"):
        log.warning("one", error=words(error))
        log.warning("two", exc_info=error)
    text = caplog.text
    assert (CANARY in text) is (which == "full")
    assert (f"sqlstate={STATE}" in text) is (which == "type")


def test_what_stands_for_a_code_is_one_and_looking_for_it_raises_nothing(settings: Any) -> None:
    settings.DURABLE = {"LOG_FAILURES": "type"}

    class Forged(ValueError):
        sqlstate = CANARY

    class Fighting(ValueError):
        @property
        def sqlstate(self) -> str:
            raise SystemExit(CANARY)

    assert [words(Forged(CANARY)).rpartition(".")[2], words(Fighting(CANARY)).rpartition(".")[2]] == [
        "Forged", "Fighting"
    ]  # fmt: skip


def test_lines_of_other_parts_do_so_too(
    settings: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, admin_user: Any
) -> None:
    from django.contrib.admin.models import LogEntry

    settings.DURABLE = {"LOG_FAILURES": "type", "ADMIN_SCOPE": f"{__name__}.falls"}
    error = refused()

    def raises(*given: Any, **named: Any) -> Any:
        raise error

    monkeypatch.setattr(LogEntry.objects, "log_actions", raises)
    logbook.log_actions(admin_user, [factories.WorkflowFactory()], "message")
    scope = Scope(admin_user)
    assert not scope.workflows().exists()
    assert CANARY not in caplog.text + scope.fault
    assert f"({STATE})" in caplog.text
    assert "scope.failed" in caplog.text


def falls(user: Any, queryset: Any) -> Any:
    """A hook that a database refuses."""
    raise DatabaseError(f"DETAIL: Key (name)=({CANARY})")


def test_no_line_words_an_error_by_itself() -> None:
    """But for errors of the system, which quote nothing: of threads, processes, sockets, and files of code."""
    allowed = {"pool.py", "reload.py", "supervisor.py", "worker.py", "health.py", "measuring.py"}
    root = Path(durable.__file__).parent
    found = {
        path.name
        for path in root.rglob("*.py")
        if re.search(r"log(?:ger)?\.\w+\([^)]*error=(?:str\(|sentence\(|f\"|repr\()", path.read_text(), re.DOTALL)
    }
    assert found <= allowed, found
    assert "pool.py" in found
