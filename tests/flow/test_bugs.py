"""A bug in workflow code blocks the workflow: it is shown, logged, and tried again when the code is repaired."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import durable
from durable import conf
from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.flow.caller import cancel, signal
from durable.flow.looks import look
from durable.flow.operator import terminate, unblock
from durable.flow.upkeep import beat
from durable.kernel.definitions.registry import registry
from durable.models import Event, Message, Workflow
from durable.outcomes import CancelAnswer
from durable.store.texts import failures
from durable.worker.loops.housekeeping import Housekeeping
from tests.flow import cases
from tests.flow import driver as rows_of
from tests.flow.driver import Driver, history

pytestmark = pytest.mark.django_db

PRICES: dict[str, int] = {}
"""What today's code knows: tests deploy other code by changing it."""

LIMIT = timedelta(hours=1)


@activity(name="bugs.pay")
def pay(n: int) -> int:
    return n


@workflow(name="bugs.order")
async def order() -> int:
    await pay.execute(1)
    price = PRICES["cup"]
    await pay.execute(2)
    return price


@workflow(name="bugs.at_once")
async def at_once() -> int:
    return PRICES["cup"]


@pytest.fixture(autouse=True)
def prices() -> Iterator[dict[str, int]]:
    """Empty, as is the code with a bug; afterwards it is again."""
    PRICES.clear()
    yield PRICES
    PRICES.clear()


@pytest.fixture
def driver() -> Driver:
    """Cold at every turn, so that each one replays."""
    return Driver(cached=0)


def stored(workflow_id: uuid.UUID) -> Workflow:
    return rows_of.workflow(workflow_id)


@pytest.fixture
def blocked(driver: Driver, frozen_clock: Any) -> uuid.UUID:
    """An order that is paid, under code that has forgotten a price."""
    workflow_id = driver.start(order, timeout=LIMIT)
    driver.run()
    return workflow_id


def deploy(monkeypatch: pytest.MonkeyPatch, version: str) -> int:
    """A worker with another version of the code starts."""
    monkeypatch.setattr(registry, "version", lambda: version)
    return unblock.after_deploy(version).count


def test_a_bug_is_shown_with_its_traceback_and_nothing_of_the_activation_stays(blocked: uuid.UUID) -> None:
    found = stored(blocked)
    assert (found.status, found.blocked_reason) == ("running", "The workflow's code raised KeyError: 'cup'")
    assert (found.error_class, found.failure, found.wake_at) == ("KeyError", None, None)
    assert history(blocked) == ["workflow_started", "activity_scheduled 1", "workflow_blocked"]
    event = look.last_block(blocked)
    assert event is not None
    assert event.data["error_type"] == "KeyError"
    assert 'PRICES["cup"]' in event.data["traceback"]
    assert set(Message.objects.values_list("kind", "parked")) == {("completed", True)}


def test_a_bug_is_logged_as_an_error_with_the_errors_own_traceback(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        driver.start(at_once)
        driver.turn()
    [record] = caplog.records
    assert (record.levelname, record.getMessage().split()[0]) == ("ERROR", "workflow.blocked")
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


def test_the_texts_of_a_bug_are_sealed_where_those_of_failures_are(driver: Driver, settings: Any) -> None:
    """The class stays plain, as that of a failure."""
    settings.DURABLE = {"CODEC": "tests.canary.shifting.Shifting"}
    workflow_id = driver.start(at_once)
    driver.turn()
    event = look.last_block(workflow_id)
    assert event is not None
    assert set(event.data) == {"version", "error_type", "sealed"}
    assert 'PRICES["cup"]' in failures.read_block(event.data, workflow_id)["traceback"]
    assert "cup" not in stored(workflow_id).blocked_reason


def test_repaired_code_goes_on_after_the_deploy_and_nothing_is_repeated(
    driver: Driver, blocked: uuid.UUID, prices: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    prices["cup"] = 3
    assert deploy(monkeypatch, "repaired") == 1
    driver.run()
    found = stored(blocked)
    assert (found.status, found.result, found.blocked_reason, found.blocked_at) == ("completed", "3", "", None)
    assert history(blocked).count("activity_scheduled 1") == 1


def test_a_bug_in_the_first_activation_blocks_it_and_repaired_code_starts(
    driver: Driver, prices: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow_id = driver.start(at_once)
    driver.turn()
    assert history(workflow_id) == ["workflow_started", "workflow_blocked"]
    prices["cup"] = 5
    deploy(monkeypatch, "repaired")
    driver.run()
    assert stored(workflow_id).result == "5"


def test_each_version_with_a_bug_tries_once_and_leaves_its_own_traceback(
    driver: Driver, blocked: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("second", "third"):
        assert deploy(monkeypatch, version) == 1
        driver.run()
        assert (driver.turn().workflows, unblock.after_deploy(version).count) == (0, 0)
    assert stored(blocked).blocked_version == "third"
    versions = Event.objects.filter(workflow_id=blocked, type="workflow_blocked").order_by("seq")
    assert [event.data["version"] for event in versions][1:] == ["second", "third"]


def test_what_an_old_worker_blocks_in_a_rolling_deploy_is_tried_again_once_it_is_gone(
    driver: Driver, blocked: uuid.UUID, prices: dict[str, int], frozen_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old worker may be given what was offered to the new version; while it lives they do not play ping-pong."""
    old = stored(blocked).blocked_version
    beat.beat(name="old", queues=[], version=old, up_for=timedelta())
    deploy(monkeypatch, "repaired")
    monkeypatch.setattr(registry, "version", lambda: old)
    driver.run()
    assert stored(blocked).blocked_version == old
    monkeypatch.setattr(registry, "version", lambda: "repaired")
    assert unblock.after_old_workers("repaired").count == 0
    beat.gone("old")
    assert unblock.after_old_workers("repaired").count == 1
    prices["cup"] = 3
    driver.run()
    assert stored(blocked).status == "completed"


def test_a_worker_that_was_killed_is_gone_when_its_heartbeat_is_old(blocked: uuid.UUID, frozen_clock: Any) -> None:
    beat.beat(name="old", queues=[], version=stored(blocked).blocked_version, up_for=timedelta())
    frozen_clock.move(2 * conf.settings.lease_for - timedelta(seconds=1))
    assert unblock.after_old_workers("new").count == 0
    frozen_clock.move(timedelta(seconds=2))
    assert unblock.after_old_workers("new").count == 1
    assert unblock.after_old_workers("new").count == 0


def test_a_round_of_housekeeping_offers_them(blocked: uuid.UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first round offers what was blocked before, each later one what old workers have left."""
    house = Housekeeping(
        worker="new",
        queues=None,
        count_the_dead=lambda is_alive: [],
        ready=lambda: None,
        on_report=lambda report: None,
        wakes_by=lambda: "",
    )
    monkeypatch.setattr(registry, "version", lambda: "new")
    house._offer()  # the moment between choosing the workflows and locking them
    assert stored(blocked).blocked_version == ""
    Workflow.objects.update(blocked_version="old")
    house._offer()
    assert stored(blocked).blocked_version == ""


KEPT = KeyError("kept by the module")


@workflow(name="bugs.kept_error")
async def raises_what_the_module_keeps() -> None:
    await durable.wait_for_signal("go")
    try:
        raise KEPT
    except KeyError:
        _ = cases.step.execute(1)
        raise


@pytest.mark.parametrize("cached", [0, 1_000])
def test_an_error_that_outlives_its_activation_blocks_at_each_try(cached: int) -> None:
    """The calls of the activation that was undone are none that repaired code would have to repeat."""
    driver = Driver(cached=cached)
    workflow_id = driver.start(raises_what_the_module_keeps)
    driver.run()
    signal.signal(workflow_id, "go", payload="1")
    for _ in range(3):
        driver.run()
        assert (stored(workflow_id).status, bool(stored(workflow_id).blocked_reason)) == ("running", True)
        unblock.unblock(workflow_id)


def test_unblock_tries_it_again(driver: Driver, blocked: uuid.UUID, prices: dict[str, int]) -> None:
    unblock.unblock(blocked)
    driver.run()
    assert stored(blocked).blocked_reason
    prices["cup"] = 4
    unblock.unblock(blocked)
    driver.run()
    assert stored(blocked).result == "4"


def test_unblock_moves_the_deadline_on_by_the_time_blocked(
    driver: Driver, blocked: uuid.UUID, prices: dict[str, int], frozen_clock: Any
) -> None:
    before, since = stored(blocked).deadline_at, stored(blocked).blocked_at
    assert before is not None
    assert since == frozen_clock.now
    frozen_clock.move(timedelta(days=3))
    prices["cup"] = 3
    unblock.unblock(blocked)
    assert (stored(blocked).deadline_at, stored(blocked).blocked_at) == (before + timedelta(days=3), None)
    driver.run()
    assert stored(blocked).status == "completed"


def test_a_deploy_moves_the_deadline_on_by_all_of_the_time_blocked(
    driver: Driver,
    blocked: uuid.UUID,
    prices: dict[str, int],
    frozen_clock: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also after a version in between that still had the bug; and not twice."""
    before = stored(blocked).deadline_at
    assert before is not None
    frozen_clock.move(timedelta(days=1))
    deploy(monkeypatch, "still broken")
    driver.run()
    assert stored(blocked).deadline_at == before
    frozen_clock.move(timedelta(days=1))
    prices["cup"] = 3
    deploy(monkeypatch, "repaired")
    driver.turn()
    assert (stored(blocked).status, stored(blocked).deadline_at) == ("running", before + timedelta(days=2))


def test_a_deadline_that_had_passed_when_it_was_blocked_ends_it(
    driver: Driver, blocked: uuid.UUID, prices: dict[str, int], frozen_clock: Any
) -> None:
    """The time blocked is added, and no more than that."""
    frozen_clock.move(timedelta(days=1))
    prices["cup"] = 3
    unblock.unblock(blocked)
    frozen_clock.move(LIMIT)
    driver.run()
    assert stored(blocked).status == "timed_out"


def test_a_cancellation_waits_until_the_code_can_go_on(
    driver: Driver, blocked: uuid.UUID, prices: dict[str, int]
) -> None:
    assert cancel.cancel(blocked).answer is CancelAnswer.ASKED
    driver.run()
    assert sorted(Message.objects.values_list("kind", "parked")) == [("cancel", True), ("completed", True)]
    assert stored(blocked).blocked_reason
    prices["cup"] = 3
    unblock.unblock(blocked)
    driver.run()
    assert stored(blocked).status == "cancelled"


def test_terminate_ends_it_at_once(blocked: uuid.UUID) -> None:
    terminate.terminate(blocked, reason="hopeless")
    found = stored(blocked)
    assert (found.status, found.blocked_reason, found.blocked_at) == ("cancelled", "", None)


def test_a_bug_stops_no_other_workflow_of_its_batch(driver: Driver) -> None:
    buggy, sound = driver.start(at_once), driver.start(order)
    report = driver.turn()
    assert [str(error) for error in report.raised] == ["'cup'"]
    assert stored(buggy).blocked_reason
    assert history(sound) == ["workflow_started", "activity_scheduled 1"]


def test_time_runs_on_for_what_only_its_full_history_blocks(
    driver: Driver, blocked: uuid.UUID, frozen_clock: Any
) -> None:
    """That can still end by its deadline, so the time counts."""
    Workflow.objects.filter(id=blocked).update(error_class="durable.errors.HistoryFull")
    before = stored(blocked).deadline_at
    frozen_clock.move(timedelta(minutes=10))
    unblock.unblock(blocked)
    assert stored(blocked).deadline_at == before
