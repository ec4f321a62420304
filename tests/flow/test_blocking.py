"""Blocking: code that can not go on behind its history is shown to staff, and stops nothing else."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from durable.errors import WorkflowClosed, WorkflowNotBlocked, WorkflowNotFound
from durable.flow.caller import signal
from durable.flow.operator import terminate, unblock
from durable.flow.turns import poison
from durable.kernel.definitions.registry import registry
from durable.models import Event, Message, Workflow
from durable.outcomes import WorkflowState
from tests.flow import cases
from tests.flow import driver as rows_of
from tests.flow.blocking import flow
from tests.flow.driver import Driver, history
from tests.flow.state import everything

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("code")]


@pytest.fixture
def driver() -> Driver:
    """Cold at every turn, so that each one replays."""
    return Driver(cached=0)


def stored(workflow_id: uuid.UUID) -> Workflow:
    return rows_of.workflow(workflow_id)


@pytest.fixture
def blocked(driver: Driver, code: dict[str, Any]) -> uuid.UUID:
    """A workflow whose history begins with `a`, under code that begins with `b`, with the result of `a` unread."""
    workflow_id = driver.start(flow)
    driver.turn()
    code["first"] = "b"
    driver.complete(driver.claim_one(), payload="1")
    driver.turn()
    return workflow_id


def test_non_determinism_is_recorded_once_with_what_was_expected_and_found(blocked: uuid.UUID) -> None:
    """Faults R1: not failed, but blocked; the mark stands beside the status, and the event says what to look at."""
    found = stored(blocked)
    assert (found.status, found.wake_at, found.blocked_version) == ("running", None, registry.version())
    assert "blocking.a" in found.blocked_reason
    assert "blocking.b" in found.blocked_reason
    assert history(blocked) == ["workflow_started", "activity_scheduled 1", "workflow_blocked"]
    event = Event.objects.get(workflow_id=blocked, type="workflow_blocked")
    assert event.data["position"] == 2
    assert "blocking.a" in event.data["recorded"]
    assert "blocking.b" in event.data["asked"]
    assert event.data["version"] == registry.version()


def test_a_blocked_workflow_is_not_turned_again(driver: Driver, blocked: uuid.UUID) -> None:
    """What waits for it is parked: never left due, never lost; new signals are accepted and parked too."""
    assert set(Message.objects.values_list("kind", "parked")) == {("completed", True)}
    signal.signal(blocked, "go", payload="1")
    driver.turn()
    before = everything()
    assert driver.turn().workflows == 0
    assert everything() == before
    assert set(Message.objects.values_list("parked", flat=True)) == {True}


def test_a_blocked_workflow_stops_no_other(driver: Driver, blocked: uuid.UUID) -> None:
    """In the same batch."""
    other = driver.start(cases.sequence, 2)
    unblock.unblock(blocked)
    driver.run()
    assert stored(other).status == "completed"
    assert stored(blocked).blocked_reason


def test_unblock_lets_fitting_code_go_on(driver: Driver, blocked: uuid.UUID, code: dict[str, Any]) -> None:
    """The mark is cleared, the messages are given back, and who did it is in the history."""
    code["first"] = "a"
    assert unblock.unblock(blocked, actor="ann", reason="rolled back") is WorkflowState.UNBLOCKED
    assert (stored(blocked).blocked_reason, stored(blocked).blocked_version) == ("", "")
    assert set(Message.objects.values_list("parked", flat=True)) == {False}
    event = Event.objects.get(workflow_id=blocked, type="workflow_unblocked")
    assert event.data == {"actor": "ann", "reason": "rolled back"}
    driver.run()
    assert stored(blocked).result == '"done"'


def test_code_that_still_does_not_fit_is_blocked_anew(driver: Driver, blocked: uuid.UUID) -> None:
    """With an event of its own: somebody tried."""
    unblock.unblock(blocked)
    driver.turn()
    assert stored(blocked).blocked_reason
    assert history(blocked)[2:] == ["workflow_blocked", "workflow_unblocked", "workflow_blocked"]


def test_unblock_refuses_what_is_not_blocked(driver: Driver) -> None:
    """Each with its own error, and nothing changed."""
    running, ended = driver.start(cases.signalled), driver.start(cases.nothing)
    driver.run()
    before = everything()
    with pytest.raises(WorkflowNotBlocked, match="running"):
        unblock.unblock(running)
    with pytest.raises(WorkflowClosed) as caught:
        unblock.unblock(ended)
    assert caught.value.status == "completed"
    with pytest.raises(WorkflowNotFound):
        unblock.unblock(uuid.uuid4())
    assert everything() == before


def test_a_blocked_workflow_can_be_terminated_and_is_then_closed_for_unblock(blocked: uuid.UUID) -> None:
    """Staff are not stuck with it."""
    terminate.terminate(blocked, reason="hopeless")
    assert (stored(blocked).status, stored(blocked).blocked_reason) == ("cancelled", "")
    with pytest.raises(WorkflowClosed):
        unblock.unblock(blocked)


def test_a_deploy_is_offered_every_blocked_workflow_once(
    driver: Driver, blocked: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version that blocked it is not offered it; another one is, once; and it does not fill the history."""
    assert unblock.after_deploy(registry.version()).count == 0
    monkeypatch.setattr(registry, "version", lambda: "second")
    assert unblock.after_deploy("second").count == 1
    assert unblock.after_deploy("second").count == 0
    assert stored(blocked).blocked_reason
    driver.turn()
    assert (stored(blocked).blocked_version, driver.turn().workflows) == ("second", 0)
    assert unblock.after_deploy("second").count == 0
    assert history(blocked).count("workflow_blocked") == 1
    assert set(Message.objects.values_list("parked", flat=True)) == {True}


def test_a_deploy_whose_code_fits_clears_the_mark(
    driver: Driver, blocked: uuid.UUID, code: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No operator is needed; the history says why it went on."""
    code["first"] = "a"
    monkeypatch.setattr(registry, "version", lambda: "fixed")
    unblock.after_deploy("fixed")
    driver.run()
    assert (stored(blocked).result, stored(blocked).blocked_reason) == ('"done"', "")
    assert "workflow_unblocked" in history(blocked)


def test_a_deploy_offers_nothing_that_has_ended(blocked: uuid.UUID) -> None:
    """Also when it was blocked before."""
    terminate.terminate(blocked, reason="hopeless")
    assert unblock.after_deploy("other").count == 0


@pytest.fixture
def unknown(driver: Driver) -> uuid.UUID:
    """A workflow of a type that no code here knows."""
    workflow_id = driver.start(cases.nothing)
    Workflow.objects.filter(id=workflow_id).update(type="blocking.to_be_deployed")
    return workflow_id


def test_an_unknown_type_waits_for_a_deploy_then_is_shown(
    driver: Driver, frozen_clock: Any, settings: Any, unknown: uuid.UUID
) -> None:
    """Faults O6, for workflows: for the set time it is only looked at now and then; after it, it is blocked by name."""
    settings.DURABLE = {"UNKNOWN_HANDLER_FOR": timedelta(minutes=5)}
    driver.turn()
    assert driver.turn().workflows == 0
    frozen_clock.move(timedelta(minutes=4))
    driver.turn()
    assert (stored(unknown).blocked_reason, history(unknown)) == ("", ["workflow_started"])
    frozen_clock.move(timedelta(minutes=2))
    driver.turn()
    assert "blocking.to_be_deployed" in stored(unknown).blocked_reason
    assert history(unknown) == ["workflow_started", "workflow_blocked"]


def test_an_unknown_type_that_is_deployed_in_time_runs(driver: Driver, frozen_clock: Any, unknown: uuid.UUID) -> None:
    """As if nothing had been."""
    driver.turn()
    Workflow.objects.update(type="cases.nothing")
    frozen_clock.move(timedelta(seconds=10))
    driver.run()
    assert stored(unknown).status == "completed"


def test_an_unknown_type_that_starts_later_waits_from_its_start_on(driver: Driver, frozen_clock: Any) -> None:
    """A day of planned waiting is not a day without code."""
    workflow_id = driver.start(cases.nothing, start_at=frozen_clock.now + timedelta(days=1))
    Workflow.objects.filter(id=workflow_id).update(type="blocking.to_be_deployed")
    frozen_clock.move(timedelta(days=1))
    driver.turn()
    assert stored(workflow_id).blocked_reason == ""
    frozen_clock.move(timedelta(minutes=6))
    driver.turn()
    assert "blocking.to_be_deployed" in stored(workflow_id).blocked_reason


def test_an_unknown_type_that_only_waits_for_a_timer_is_shown_too(driver: Driver, frozen_clock: Any) -> None:
    """Its code was taken away while it slept: nobody would ever look at it otherwise."""
    workflow_id = driver.start(cases.sleeper, 60)
    driver.turn()
    Workflow.objects.filter(id=workflow_id).update(type="blocking.taken_away")
    for _ in range(5):
        frozen_clock.move(timedelta(minutes=2))
        driver.turn()
    assert "blocking.taken_away" in stored(workflow_id).blocked_reason


def test_poison_turns_are_counted_and_block_at_the_limit(driver: Driver, overrunning: uuid.UUID) -> None:
    """What the turn had read stays unread; at the limit staff see it."""
    for turns in (1, 2):
        driver.turn()
        assert (stored(overrunning).poison_turns, stored(overrunning).blocked_reason) == (turns, "")
        assert set(Message.objects.values_list("kind", "parked")) == {("signal", False)}
    driver.turn()
    assert "3 turns in a row" in stored(overrunning).blocked_reason
    assert history(overrunning) == ["workflow_started", "workflow_begun", "workflow_blocked"]
    assert set(Message.objects.values_list("kind", "parked")) == {("signal", True)}
    assert driver.turn().workflows == 0


def test_a_turn_that_succeeds_begins_the_count_anew(
    driver: Driver, overrunning: uuid.UUID, code: dict[str, Any]
) -> None:
    """In a row means in a row."""
    driver.turn()
    code["steps"] = 0
    driver.run()
    assert (stored(overrunning).status, stored(overrunning).poison_turns) == ("completed", 0)


def test_unblock_gives_a_poisoned_one_its_turns_again(
    driver: Driver, overrunning: uuid.UUID, code: dict[str, Any]
) -> None:
    """Whoever unblocks it wants it tried."""
    for _ in range(3):
        driver.turn()
    code["steps"] = 0
    unblock.unblock(overrunning)
    driver.run()
    assert stored(overrunning).status == "completed"


def test_a_workflow_with_poison_turns_is_turned_alone(driver: Driver, overrunning: uuid.UUID) -> None:
    """The others of the batch do not roll back with it; and it is not forgotten behind them."""
    driver.turn()
    others = [driver.start(cases.sequence, 1) for _ in range(3)]
    driver.noted.clear()
    driver.turn()
    assert set(driver.noted) == {overrunning, None}
    assert stored(overrunning).poison_turns == 2
    for _ in range(3):
        driver.turn()
    assert stored(overrunning).blocked_reason
    driver.run()
    assert {stored(id).status for id in others} == {"completed"}


def test_a_turn_that_killed_its_process_is_counted_from_outside(driver: Driver, settings: Any) -> None:
    """By the next start, which knows whose code was running; an ended or unknown workflow is left alone."""
    settings.DURABLE = {"TURN_POISON_LIMIT": 2}
    live, ended = driver.start(cases.signalled), driver.start(cases.nothing)
    driver.run()
    poison.count(live)
    assert (stored(live).poison_turns, stored(live).blocked_reason) == (1, "")
    poison.count(live)
    assert "2 turns in a row" in stored(live).blocked_reason
    before = everything()
    poison.count(ended)
    poison.count(uuid.uuid4())
    assert everything() == before


def test_what_this_version_has_blocked_meanwhile_is_not_offered_to_it_again(blocked: uuid.UUID) -> None:
    """Another worker of this version was sooner, between the choice and the locks."""
    before = everything()
    assert stored(blocked).blocked_version == registry.version()
    unblock._offer([blocked], registry.version(), connection)  # the moment between choosing and locking them
    assert everything() == before


def test_one_that_kills_each_worker_that_a_deploy_offers_it_to_is_blocked_again(driver: Driver, settings: Any) -> None:
    """It was offered again and again before: no worker of the new version stayed alive."""
    settings.DURABLE = {"TURN_POISON_LIMIT": 2}
    workflow_id = driver.start(cases.signalled)
    driver.run()
    poison.count(workflow_id)
    poison.count(workflow_id)
    before = history(workflow_id)
    unblock._offer([workflow_id], "next", connection)  # the moment between choosing the workflows and locking them
    assert stored(workflow_id).blocked_version == ""
    poison.count(workflow_id)
    assert stored(workflow_id).blocked_version == ""
    poison.count(workflow_id)
    assert stored(workflow_id).blocked_version == registry.version()
    assert history(workflow_id) == before
    assert driver.turn().workflows == 0


def test_a_history_at_its_limit_blocks_the_workflow(driver: Driver, settings: Any) -> None:
    """MAX_HISTORY_EVENTS: shown, not failed; a higher limit lets it go on."""
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 10}
    workflow_id = driver.start(cases.sequence, 20)
    driver.run()
    found = stored(workflow_id)
    assert found.status == "running"
    assert "MAX_HISTORY_EVENTS (10 events)" in found.blocked_reason
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 1000}
    unblock.unblock(workflow_id)
    driver.run()
    assert stored(workflow_id).status == "completed"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE durable_event SET data = '{no' WHERE workflow_id = %s", "event 1 cannot be read"),
        ("UPDATE durable_event SET data = '[]' WHERE workflow_id = %s", "no JSON object"),
        ("UPDATE durable_event SET data = '{}' WHERE workflow_id = %s", "KeyError"),
        ("DELETE FROM durable_event WHERE workflow_id = %s", "ends at event 0, not at 1"),
        ("UPDATE durable_workflow SET last_seq = 9 WHERE id = %s", "ends at event 1, not at 9"),
        ("UPDATE durable_message SET payload = '{no' WHERE workflow_id = %s AND kind = 'signal'", "JSONDecodeError"),
    ],
)
def test_what_can_not_be_read_blocks_its_own_workflow_and_stops_no_other(
    driver: Driver, damage: str, words: str
) -> None:
    """Specification B7, faults O5: edited by hand, or lost in a restore. What a newer engine wrote is put off:
    `test_newer_engines`.
    """
    damaged, sound = driver.start(flow), driver.start(flow)
    signal.signal(damaged, "go", payload="1")
    with connection.cursor() as cursor:
        cursor.execute(damage, [damaged.hex if connection.vendor == "sqlite" else damaged])
    driver.turn()
    driver.turn()  # telling of an error may take the time of a whole batch
    found = stored(damaged)
    assert (found.status, words in found.blocked_reason) == ("running", True), found.blocked_reason
    assert set(Message.objects.filter(workflow_id=damaged).values_list("parked", flat=True)) <= {True}
    assert "activity_scheduled 1" in history(sound)
