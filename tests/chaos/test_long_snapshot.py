"""A report, a dump or a forgotten transaction holds an old snapshot while work flows (PostgreSQL)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from durable.models import OutboxRow
from durable.outcomes import OutboxStatus
from tests.chaos.fleet import FULL, pass_time, tell, until
from tests.chaos.snapshot_claims import TimedClaims, look
from tests.worker.conftest import Plant
from tests.worker.plant import activities
from tests.worker.threads import running

pytestmark = pytest.mark.skipif(os.environ.get("DURABLE_TEST_DATABASE") != "postgresql", reason="vacuum and snapshots")

PER_SECOND, SECONDS = 100, 240 if FULL else 10
P95_BOUND = 50.0
"""Milliseconds, as `docs/operations.md` states for this rate and this time."""

CLAIM_INDEX, PAGES_OF_AN_EMPTY_LOOK = "durable_outbox_claim", 20


@pytest.fixture
def old_snapshot(plant: Plant) -> Iterator[psycopg.Connection]:
    """A repeatable-read transaction that has looked once and does nothing more."""
    settings = connection.settings_dict
    with psycopg.connect(host=settings["HOST"], user=settings["USER"], dbname=settings["NAME"]) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM durable_outboxrow").fetchone()
        yield other


def everything_is_done() -> bool:
    return not OutboxRow.objects.exclude(status=OutboxStatus.DONE).exists()


def has_been_tidied() -> bool:
    """Vacuum, and look. An ANALYZE of the server's own may hold a snapshot meanwhile; then the next vacuum does it."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM durable_outboxrow")
    return look()[1] <= PAGES_OF_AN_EMPTY_LOOK


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_under_an_old_snapshot_claims_stay_on_their_index_and_done_rows_leave_it(
    plant: Plant, old_snapshot: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults G1: every version that was ever pending stays in the index while the snapshot lives, and none after it."""
    claims = TimedClaims(monkeypatch)
    began = time.monotonic()
    with running():
        for number in range(SECONDS * 10):
            activities.add.enqueue_many([(number, at) for at in range(PER_SECOND // 10)])
            if FULL:
                pass_time(max(0.0, began + number / 10 - time.monotonic()))
        until(everything_is_done, within=300, stuck=lambda: f"{OutboxRow.objects.exclude(status='done').count()} left")
    assert OutboxRow.objects.count() == PER_SECOND * SECONDS
    indexes, pages_before = look()
    old_snapshot.rollback()
    until(has_been_tidied, within=60, stuck=lambda: f"a look touches {look()[1]} pages")
    indexes_after, pages = look()
    p50, p95 = (claims.percentile(share) * 1000 for share in (0.5, 0.95))
    rows, seconds, made = PER_SECOND * SECONDS, time.monotonic() - began, len(claims.seconds)
    tell(f"{rows} rows in {seconds:.0f} s under one snapshot: {made} claims")
    tell(f"p50 {p50:.1f} ms, p95 {p95:.1f} ms; a look touches {pages_before} pages, {pages} after its end and a vacuum")
    assert pages < pages_before
    if FULL:  # a figure of speed, and the plan, which is a matter of taste on few rows
        assert p95 < P95_BOUND
        assert indexes == indexes_after == {CLAIM_INDEX}
