"""Who only reads waits for nobody."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import connection

from durable.models import Workflow
from tests.flow import cases
from tests.flow.driver import Driver
from tests.waiting import PATIENCE, Gate

pytestmark = pytest.mark.django_db(transaction=True)


def read_without_waiting() -> int:
    """What a web request does that only reads, on a connection that would rather fail than wait."""
    impatient, patient = {
        "sqlite": ("PRAGMA busy_timeout = 0", "PRAGMA busy_timeout = 20000"),
        "postgresql": ("SET lock_timeout = '1ms'", "RESET lock_timeout"),
    }[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(impatient)
        try:
            return Workflow.objects.filter(status="running").count()
        finally:
            cursor.execute(patient)


@pytest.mark.parametrize("verb", ["claim", "turn"])
def test_a_request_that_only_reads_never_waits_for_a_worker(
    driver: Driver, second_connection: Callable[..., Future[Any]], gate: Gate, verb: str
) -> None:
    """Faults Q2: it reads while the worker stands behind the first write of its transaction."""
    driver.start(cases.sequence, 1)
    if verb == "claim":
        driver.turn()

    def hold(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        if connection.in_atomic_block and sql.lstrip().startswith(("INSERT", "UPDATE", "DELETE", "WITH")):
            gate.pass_through()
        return answer

    def work() -> None:
        with connection.execute_wrapper(hold):
            getattr(driver, verb)()

    at_work = second_connection(work)
    gate.wait_for_arrival()
    assert read_without_waiting() == 1
    gate.open()
    assert at_work.result(PATIENCE) is None


def test_an_idle_workers_claim_is_two_short_statements_at_most(driver: Driver) -> None:
    """Faults Q2: it holds SQLite's write lock for a look that finds nothing, and writes nothing."""
    seen: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    driver.claim()
    with connection.execute_wrapper(note):
        assert driver.claim() == []
    looks = [sql for sql in seen if not sql.startswith(("BEGIN", "SET", "SAVEPOINT", "RELEASE"))]
    assert [sql.lstrip()[:6] for sql in looks] == ["SELECT"]
