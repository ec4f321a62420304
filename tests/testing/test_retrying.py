"""What an activity says of its own retry: `RetryAfter`, `NoRetry`, and heartbeats that do not come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError

import durable
from durable import Retry, clock, testing
from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.models import FailedAttempt, OutboxRow
from durable.operations import redrive
from tests.ledger.models import Entry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("isolated_registry")]

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
FOUR = Retry(max_attempts=4, no_retry=(durable.DurableError, ValueError))

Attempts = list[datetime]


def sync(errors: list[Any], began: Attempts) -> Any:
    @activity(name="retrying.sync", retry=FOUR)
    def handler() -> str:
        began.append(clock.host_now())
        if errors:
            raise errors.pop(0)
        return "done"

    return handler


def in_a_loop(errors: list[Any], began: Attempts) -> Any:
    @activity(name="retrying.in_a_loop", retry=FOUR)
    async def handler() -> str:
        began.append(clock.host_now())
        if errors:
            raise errors.pop(0)
        return "done"

    return handler


def transactional(errors: list[Any], began: Attempts) -> Any:
    @activity(name="retrying.transactional", retry=FOUR, transactional=True)
    def handler() -> str:
        began.append(clock.host_now())
        Entry.objects.create(label="written")
        if errors:
            raise errors.pop(0)
        return "done"

    return handler


EVERY_KIND = pytest.mark.parametrize("kind", [sync, in_a_loop, transactional])
Kind = Callable[[list[Any], Attempts], Any]


def after(span: Any, cause: BaseException | None = None) -> durable.RetryAfter:
    error = durable.RetryAfter(span)
    error.__cause__ = cause
    return error


@EVERY_KIND
def test_the_next_attempt_is_due_exactly_when_the_activity_says(kind: Kind) -> None:
    """Whatever `no_retry`, `cap` and jitter say; a moment that has passed means at once."""
    began: Attempts = []
    errors = [after(HOUR), after(NOON + 5 * HOUR), after(NOON)]
    with testing.freeze(NOON):
        assert testing.run(kind(errors, began)) == "done"
    assert began == [NOON, NOON + HOUR, NOON + 5 * HOUR, NOON + 5 * HOUR]


@EVERY_KIND
def test_the_attempts_count_and_the_last_one_fails_the_activity(kind: Kind) -> None:
    began: Attempts = []
    with testing.freeze(NOON), pytest.raises(durable.WorkflowFailed) as caught:
        testing.run(kind([after(HOUR)] * 4, began))
    assert len(began) == 4
    assert (caught.value.type, caught.value.message) == ("durable.errors.RetryAfter", "To be tried again in 1:00:00.")
    assert list(FailedAttempt.objects.values_list("cause", flat=True)) == ["application_error"] * 4


@EVERY_KIND
def test_an_error_that_must_not_be_retried_fails_at_once(kind: Kind) -> None:
    class Refused(durable.NoRetry):
        """Of the project."""

    for error in (durable.NoRetry("the card was stolen"), Refused("the card was stolen")):
        began: Attempts = []
        with pytest.raises(durable.WorkflowFailed, match="the card was stolen"):
            testing.run(kind([error], began))
        assert len(began) == 1


def test_no_retry_holds_under_a_policy_that_retries_everything() -> None:
    began: list[int] = []

    @activity(name="retrying.stubborn", retry=Retry(max_attempts=4, no_retry=()), on_exhausted="hold")
    def stubborn() -> None:
        began.append(1)
        raise durable.NoRetry

    with pytest.raises(durable.WorkflowFailed, match="must not be tried again"):
        testing.run(stubborn)
    assert began == [1]


def test_raised_from_an_error_of_the_database_it_still_decides() -> None:
    """A transactional handler whose error is of the database is otherwise repeated within its attempt."""
    began: Attempts = []
    with testing.freeze(NOON):
        assert testing.run(transactional([after(HOUR, OperationalError("deadlock"))], began)) == "done"
    assert began == [NOON, NOON + HOUR]
    assert Entry.objects.count() == 1


def test_a_workflow_waits_for_the_activity_that_waits() -> None:
    began: Attempts = []
    handler = sync([after(HOUR)], began)

    @workflow(name="retrying.flow")
    async def flow() -> str:
        return str(await handler.execute())

    with testing.freeze(NOON):
        assert testing.run(flow) == "done"
    assert began == [NOON, NOON + HOUR]


@pytest.mark.parametrize("when", [30, "30", None, NOON.replace(tzinfo=None)], ids=repr)
def test_other_waits_are_refused_by_name(when: Any) -> None:
    with pytest.raises(durable.OptionInvalid, match=r"when=.* when is a timedelta, or an aware datetime"):
        durable.RetryAfter(when)


def test_a_wait_beyond_the_calendar_is_the_longest_span_and_less_than_nothing_is_none() -> None:
    error = durable.RetryAfter(timedelta(days=-1), "later")
    assert (error.wait(NOON), str(error)) == (timedelta(), "later")
    began: Attempts = []
    with testing.freeze(NOON), pytest.raises(testing.NeverEnds):
        testing.run(sync([after(timedelta.max)], began))
    assert began == [NOON]


def test_a_derived_class_that_says_nothing_waits_as_the_policy_says() -> None:
    class Vague(durable.RetryAfter):
        def __init__(self) -> None:
            """Sets nothing."""

        @property
        def when(self) -> Any:  # type: ignore[override]
            raise RuntimeError("not set")

    began: Attempts = []

    @activity(name="retrying.vague", retry=Retry(max_attempts=2, first=SECOND, jitter=0))
    def vague() -> str:
        began.append(clock.host_now())
        if len(began) == 1:
            raise Vague
        return "done"

    with testing.freeze(NOON):
        assert testing.run(vague) == "done"
    assert began == [NOON, NOON + SECOND]


@pytest.mark.parametrize("beats", [True, False], ids=["beats", "silent"])
def test_an_attempt_that_is_silent_for_too_long_has_failed_and_is_retried(beats: bool) -> None:
    """By the clock that the handler moves, as `start_to_close` is."""

    @activity(name="retrying.silent", heartbeat_timeout=timedelta(minutes=1), retry=Retry(max_attempts=2))
    def silent() -> int:
        info = durable.activity_info()
        for _ in range(4):
            testing.move(timedelta(seconds=40))
            if beats:
                info.heartbeat()
        return info.attempt

    with testing.freeze(NOON):
        if beats:
            assert testing.run(silent) == 1
            return
        with pytest.raises(durable.WorkflowFailed, match="sent no heartbeat for longer than its heartbeat_timeout"):
            testing.run(silent)
    assert list(FailedAttempt.objects.values_list("cause", flat=True)) == ["heartbeat_timeout"] * 2


def test_the_limit_of_a_call_goes_before_the_declared_one() -> None:
    @activity(name="retrying.bound", heartbeat_timeout=timedelta(minutes=1), retry=Retry(max_attempts=1))
    def bound() -> str:
        testing.move(timedelta(minutes=5))
        return "done"

    @workflow(name="retrying.calls_bound")
    async def calls_bound() -> str:
        return str(await bound.options(heartbeat_timeout=HOUR).execute())

    with testing.freeze(NOON):
        assert testing.run(calls_bound) == "done"


def test_without_a_limit_it_is_tried_until_it_succeeds_and_the_first_and_last_failures_are_kept() -> None:
    began: list[int] = []

    @activity(name="retrying.unlimited", retry=Retry(max_attempts=None, first=SECOND, factor=1, jitter=0))
    def unlimited() -> str:
        began.append(1)
        if len(began) <= 112:
            raise RuntimeError(len(began))
        return "done"

    assert testing.run(unlimited) == "done"
    row = OutboxRow.objects.get()
    assert (row.attempts, row.attempt_budget) == (113, None)
    kept = list(FailedAttempt.objects.order_by("number").values_list("number", flat=True))
    assert kept == [1, 2, 3, 4, 5, *range(13, 113)]


def test_a_limited_row_beside_it_keeps_all_its_failures() -> None:
    @activity(name="retrying.limited", retry=Retry(max_attempts=110, first=SECOND, factor=1, jitter=0))
    def limited() -> None:
        raise RuntimeError

    with pytest.raises(durable.WorkflowFailed):
        testing.run(limited)
    assert FailedAttempt.objects.count() == 110


def test_a_redrive_leaves_a_row_without_a_limit_without_one(settings: Any) -> None:
    settings.DURABLE = {"DELIVERY_ATTEMPTS": 1}

    @activity(name="retrying.lost", retry=Retry(max_attempts=None))
    def lost() -> str:
        return "done"

    handle = lost.enqueue()
    OutboxRow.objects.update(input="{broken")
    testing.drain()
    row = OutboxRow.objects.get()
    assert (row.status, row.attempt_budget) == ("dead", None)
    OutboxRow.objects.update(input='{"args":[],"kwargs":{}}')
    redrive(handle.id, 1, reason="mended")
    assert OutboxRow.objects.get().attempt_budget is None
