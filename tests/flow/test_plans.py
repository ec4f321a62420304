"""The cost of a statement does not depend on what lies in the tables: none of the hot ones reads a table whole."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.flow import acknowledge, renew
from durable.outcomes import Completed, Held
from tests.flow import cases
from tests.flow.driver import LEASE, Driver

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL rightly reads small tables whole."),
]

_PLANNED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_GIVEN = re.compile(r"SCAN (json_each|given|\(subquery|value)")


def _scans(statement: str) -> list[str]:
    with connection.cursor() as cursor:
        plan = cursor.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
    return [line for *_, line in plan if line.startswith("SCAN ") and "USING" not in line and not _GIVEN.match(line)]


def test_no_statement_of_the_way_through_reads_a_table_whole(driver: Driver) -> None:
    """DESIGN 10: claims, turns, acknowledgements and renewals with any number of closed workflows in the tables."""
    with CaptureQueriesContext(connection) as captured:
        driver.enqueue(cases.step, 1)
        driver.start(cases.fan_out, 3)
        driver.turn()
        claims = driver.claim()
        renew.renew([Held(claim.row_id, claim.token) for claim in claims], lease_for=LEASE)
        acknowledge.acknowledge([Completed(claim, '{"paid":"9.90"}') for claim in claims])
        driver.turn()
    statements = [query["sql"] for query in captured if _PLANNED.match(query["sql"])]
    assert len(statements) > 20
    found = {statement[:200]: scans for statement in statements if (scans := _scans(statement))}
    assert not found
