"""Counting statements and commits."""

from __future__ import annotations

import pytest
from django.db import connections, transaction

from durable.bench import work
from durable.bench.counting import counting
from durable.bench.plain import TABLE, plain
from durable.bench.scratch import scratch

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_enqueue_is_one_statement_on_postgresql_and_one_a_table_on_sqlite_in_one_commit() -> None:
    statements = 1 if connections["default"].vendor == "postgresql" else 3
    with scratch("default"), counting("default") as counts:
        connections["default"].ensure_connection()
        before = counts.so_far()
        work.nothing.enqueue(1)
        after = counts.so_far()
    assert (after[0] - before[0], after[1] - before[1]) == (statements, 1)


def test_a_transaction_that_only_reads_and_one_that_is_rolled_back_are_no_commits() -> None:
    with scratch("default"), counting("default") as counts:
        connections["default"].ensure_connection()
        before = counts.so_far()[1]
        with transaction.atomic(), connections["default"].cursor() as cursor:
            cursor.execute("SELECT 1")
        with transaction.atomic():
            work.nothing.enqueue(1)
            transaction.set_rollback(True)
        with transaction.atomic(), connections["default"].cursor() as cursor:
            cursor.execute("SELECT 1")
        after = counts.so_far()[1]
    assert after == before


def test_the_plain_loop_commits_as_many_rows_as_it_says() -> None:
    with scratch("default"), plain("default") as rate:
        answered = rate(0.01)
        with connections["default"].cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {TABLE}")
            rows = cursor.fetchone()[0]
        assert rows >= 1
        assert answered > 0
