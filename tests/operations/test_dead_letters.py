"""Becoming a dead letter and being taken up again: suspects, pacing, settlement, the causes."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import durable
from durable import conf
from durable.flow.caller import enqueue
from durable.flow.delivery import claim
from durable.flow.upkeep import reconcile, settle
from durable.models import OutboxRow
from durable.operations import discard, list_dead_letters, pause, redrive, terminate
from durable.outcomes import AckOutcome, Cause, KeyHeld
from tests import factories
from tests.flow.cases import fan_out
from tests.flow.driver import Driver, items, row, rows, workflow
from tests.flow.state import expire
from tests.operations import cases
from tests.operations.scenes import bury, dead, die, history, stranded

pytestmark = pytest.mark.django_db


def test_what_a_dead_worker_held_comes_due_one_by_one_at_the_rate_of_the_settings(
    driver: Driver, frozen_clock: Any, settings: Any
) -> None:
    """Specification B7, faults O8: after an outage not everything at once, and the first without a long wait."""
    settings.DURABLE = {"REARM_PER_SECOND": 2.0, "DELIVERY_BACKOFF": (timedelta(seconds=1), 1.0, timedelta(seconds=1))}
    workflow_id = driver.start(fan_out, 6)
    driver.turn()
    expire(*driver.claim())
    assert reconcile.reconcile().rearmed == 6
    due = sorted((r.visible_after - frozen_clock.now).total_seconds() for r in rows(workflow_id))
    for place, seconds in enumerate(due):
        assert 0.8 + place / 2 <= seconds <= 1.2 + place / 2
    assert due[0] <= 1.2


def test_without_a_rate_they_come_due_together(driver: Driver, frozen_clock: Any, settings: Any) -> None:
    settings.DURABLE = {"REARM_PER_SECOND": None, "DELIVERY_BACKOFF": (timedelta(seconds=1), 1.0, timedelta(seconds=1))}
    workflow_id = driver.start(fan_out, 6)
    driver.turn()
    expire(*driver.claim())
    reconcile.reconcile()
    assert max((r.visible_after - frozen_clock.now).total_seconds() for r in rows(workflow_id)) <= 1.2


def test_the_pacing_goes_on_over_pages_and_workflows(
    driver: Driver, frozen_clock: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round is one sequence, however it is cut into transactions."""
    settings.DURABLE = {"REARM_PER_SECOND": 1.0, "DELIVERY_BACKOFF": (timedelta(seconds=1), 1.0, timedelta(seconds=1))}
    monkeypatch.setattr(reconcile, "_PAGE", 2)  # no setting: several pages of few rows
    ids = [driver.start(fan_out, 2) for _ in range(3)]
    driver.turn()
    expire(*driver.claim())
    assert reconcile.reconcile().rearmed == 6
    due = sorted((r.visible_after - frozen_clock.now).total_seconds() for one in ids for r in rows(one))
    assert [round(seconds - place) for place, seconds in enumerate(due)] == [1] * 6


def test_suspects_are_delivered_alone_and_the_killer_spends_only_its_own_budget(
    driver: Driver, frozen_clock: Any, settings: Any
) -> None:
    """Specification B7: a process that died held many rows, of which one killed it."""
    settings.DURABLE = {"DELIVERY_ATTEMPTS": 3}
    workflow_id = driver.start(fan_out, 3)
    driver.turn()
    expire(*driver.claim())
    reconcile.reconcile()
    assert {r.suspect for r in rows(workflow_id)} == {True}
    deaths = 0
    while deaths < 2:
        frozen_clock.move(timedelta(hours=1))
        assert driver.claim() == []
        (alone,) = claim.claim_suspect(worker="driver", queues=None, lease_for=timedelta(minutes=1))
        if alone.ordinal == 2:
            expire(alone)
            reconcile.reconcile()
            deaths += 1
        else:
            driver.complete(alone, payload="1")
    (killer,) = list_dead_letters(workflow_id)
    assert (killer.ordinal, killer.delivery_failures, killer.cause) == (2, 3, "worker_died")
    for ordinal in (1, 3):
        other = row(workflow_id, ordinal)
        assert other.delivery_failures <= 1


def test_a_redriven_killer_is_no_suspect_any_more(driver: Driver) -> None:
    letter = dead(history("activity_scheduled 1"), suspect=True)
    redrive(letter.workflow_id, 1)
    assert driver.claim_one().row_id == letter.pk


@pytest.mark.parametrize(
    "cause",
    [Cause.ACK_ABANDONED, Cause.UNKNOWN_HANDLER, Cause.UNDECODABLE_INPUT, Cause.TRANSPORT_DOWN, Cause.LEASE_LOST],
)
def test_the_cause_stays_on_the_row(driver: Driver, cause: Cause) -> None:
    """Specification B6, of the closed list."""
    workflow_id = driver.enqueue(cases.tidy, 1, deliveries=2)
    letter = die(driver, workflow_id, cause=cause)
    assert (letter.cause, letter.dead_lettered_at is not None) == (cause.value, True)


def test_terminating_settles_dead_letters_too(driver: Driver) -> None:
    """Specification B7."""
    workflow_id, letter = stranded(driver)
    terminate(workflow_id, reason="enough")
    assert not list_dead_letters(workflow_id)
    assert row(workflow_id).status == "cancelled"
    assert row(workflow_id).cause == letter.cause


def test_a_workflow_that_completes_settles_the_dead_letters_it_leaves_behind(driver: Driver) -> None:
    workflow_id, _ = stranded(driver, cases.careful)
    driver.run()
    assert workflow(workflow_id).status == "completed"
    assert not list_dead_letters(workflow_id)


def test_dead_letters_of_ended_workflows_are_settled_at_a_workers_start() -> None:
    """Specification B7: rows that an older version left behind, at any number."""
    letter = dead(history(status="failed"))
    assert settle.settle_closed(limit=None) == 1
    assert OutboxRow.objects.get(pk=letter.pk).status == "cancelled"


def test_a_long_list_comes_in_pieces_that_say_whether_there_is_more_and_reads_no_payload() -> None:
    owner = factories.WorkflowFactory(input='"heavy"', blocked_reason="heavy")
    at = factories.now()
    for number in range(1, 6):
        factories.OutboxRowFactory(
            workflow=owner, ordinal=number, status="dead", dead_lettered_at=at, last_heartbeat='"heavy"'
        )
    with CaptureQueriesContext(connection) as made:
        first = list_dead_letters(owner.pk, limit=2)
    assert (first.more, [row.ordinal for row in first]) == (True, [1, 2])
    for column in ("input", "last_heartbeat", "blocked_reason", "result", "failure"):
        assert f'"{column}"' not in made[0]["sql"], column
    rest = list_dead_letters(owner.pk, after=first[-1])
    assert (rest.more, [row.ordinal for row in rest]) == (False, [3, 4, 5])
    assert list_dead_letters(owner.pk, limit=5).more is False
    no_letter = replace(first[0], dead_lettered_at=None)
    for wrong in ({"limit": 0}, {"limit": 10_001}, {"limit": True}, {"after": no_letter}):
        with pytest.raises(durable.OptionInvalid):
            list_dead_letters(owner.pk, **wrong)


def test_the_list_of_an_unknown_workflow_is_empty() -> None:
    assert not list_dead_letters(uuid.uuid4())


def test_a_key_that_a_dead_letter_holds_is_reported_with_the_holders_id(driver: Driver) -> None:
    """Faults S11: an orphan does not silently keep new work out."""
    holder = driver.enqueue(cases.tidy, 1, key="order-42")
    die(driver, holder)
    new = enqueue.new_activity(
        id=uuid.uuid4(),
        activity=cases.tidy.name,
        payload='{"n":1}',
        key="order-42",
        attempt_budget=5,
        delivery_budget=8,
    )
    assert enqueue.enqueue([new]) == [KeyHeld("order-42", holder)]


def test_a_dead_letter_holds_no_lock_and_nothing_waits_behind_it(driver: Driver) -> None:
    """Faults S3: leases are short by default, a dead letter has none, the rows of its queue, activity and workflow go
    on, and the business key of the workflow is free as soon as somebody has decided.
    """
    assert conf.settings.lease_for == timedelta(minutes=1)
    single = driver.enqueue(cases.tidy, 1, key="order-42")
    die(driver, single)
    workflow_id = driver.start(fan_out, 2)
    driver.turn()
    dead_one, other = driver.claim()
    bury(dead_one)
    assert items() == [item for item in items() if item.outbox_row_id == other.row_id]
    beside = driver.enqueue(cases.tidy, 2)
    assert {claim.workflow_id for claim in driver.claim()} == {beside}
    assert driver.complete(other) == [AckOutcome.ACKNOWLEDGED]
    assert driver.turn().workflows == 1
    assert workflow(workflow_id).status == "running"
    discard(single, 1, reason="decided")
    assert driver.enqueue(cases.tidy, 3, key="order-42") != single


def test_rows_on_long_leases_do_not_hide_an_expired_one(driver: Driver) -> None:
    """Faults S6, with fewer rows: older than the expired one, and not to be touched."""
    first = driver.start(fan_out, 250)
    driver.turn()
    driver.claim(limit=250)
    last = driver.start(fan_out, 1)
    driver.turn()
    expire(driver.claim_one())
    assert reconcile.reconcile().rearmed == 1
    assert row(last).status == "pending"
    assert {r.status for r in rows(first)} == {"claimed"}


def test_a_paused_dead_letter_is_taken_up_with_its_mark(driver: Driver) -> None:
    workflow_id = driver.start(fan_out, 1)
    driver.turn()
    held = driver.claim_one()
    pause(workflow_id)
    expire(held)
    reconcile.reconcile()
    assert (row(workflow_id).status, row(workflow_id).paused) == ("pending", True)


def test_a_second_death_is_a_dead_letter_with_a_time_of_its_own(driver: Driver, frozen_clock: Any) -> None:
    workflow_id, first = stranded(driver)
    frozen_clock.move(timedelta(hours=1))
    redrive(workflow_id, 1)
    second = bury(driver.claim_one(), cause=Cause.LEASE_LOST)
    assert first.dead_lettered_at is not None
    assert second.dead_lettered_at == first.dead_lettered_at + timedelta(hours=1)
    assert (second.cause, second.redrive_count, second.failure_delivered) == ("lease_lost", 1, False)
    assert redrive(workflow_id, 1).row.redrive_count == 2
