"""Replays of exported histories, here and in fresh processes."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import durable
from durable import NonDeterminism, testing
from durable.client.find import get_workflow
from durable.kernel.codec import JsonCodec
from durable.kernel.definitions.registry import registry
from durable.kernel.history.events import EventType
from durable.kernel.payloads.birthplace import Birthplace
from tests.flow.driver import Driver
from tests.testing import plant

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def types_of(history: dict[str, Any]) -> list[str]:
    return [event["type"] for event in history["events"]]


@pytest.mark.django_db
class TestExport:
    def test_a_history_is_plain_json_and_replays_as_dictionary_text_and_file(self, tmp_path: Path) -> None:
        handle = plant.checkout.start(42)
        testing.run(handle)
        exported = testing.export_history(handle)
        text = json.dumps(exported)
        assert json.loads(text) == exported == testing.export_history(str(handle.id))
        (tmp_path / "checkout.json").write_text(text)
        for form in (exported, text, tmp_path / "checkout.json", str(tmp_path / "checkout.json")):
            replayed = testing.replay_here(form)
            assert (replayed.workflow_id, replayed.type) == (handle.id, "plant.checkout")
            assert (replayed.events, replayed.drift) == (len(exported["events"]), 0)
            assert replayed.closed is EventType.WORKFLOW_COMPLETED

    def test_an_open_history_replays_to_where_it_stands(self) -> None:
        handle = plant.checkout.start(42)
        assert testing.replay_here(testing.export_history(handle)).events == 1
        testing.drain()
        assert testing.replay_here(testing.export_history(handle)).closed is None

    def test_a_workflow_that_was_ended_before_it_began_replays(self) -> None:
        from durable.operations import terminate

        handle = plant.checkout.start(42)
        terminate(handle.id, reason="too late", actor=None)
        replayed = testing.replay_here(testing.export_history(handle))
        assert replayed.closed is EventType.WORKFLOW_CANCELLED

    def test_what_is_no_history_is_refused_with_the_reason(self, tmp_path: Path) -> None:
        handle = plant.slow.enqueue()
        good = testing.export_history(plant.checkout.start(1))
        cases: list[tuple[Any, str]] = [
            (tmp_path / "missing.json", "cannot be read"),
            ("{not json", "cannot be read"),
            ({}, "is no exported history"),
            (good | {"format": 99}, "format 99"),
            (good | {"events": []}, "has no events"),
            (testing.export_history(handle), "single activity"),
        ]
        for source, problem in cases:
            with pytest.raises(testing.NotReplayable, match=problem):
                testing.replay_here(source)
        with pytest.raises(durable.WorkflowNotFound):
            testing.export_history("00000000-0000-7000-8000-000000000000")


@pytest.mark.django_db
class TestBugs:
    """Code that has a bug where the history goes on."""

    @pytest.fixture
    def history(self) -> Iterator[dict[str, Any]]:
        plant.BROKEN.append("cup")
        handle = plant.breaks_when_told.start()
        testing.run(handle)
        yield testing.export_history(handle)
        plant.BROKEN.clear()

    def test_a_bug_of_the_code_is_raised_as_it_is(self, history: dict[str, Any]) -> None:
        plant.BROKEN.clear()
        for replay in (testing.replay_here, testing.replay):
            with pytest.raises(KeyError, match="cup") as caught:
                replay(history)
            assert caught.value.__context__ is None
            assert caught.traceback[-1].name == "breaks_when_told"

    def test_one_that_only_a_fresh_process_has_is_told_with_its_traceback(self, history: dict[str, Any]) -> None:
        assert testing.replay_here(history).closed is EventType.WORKFLOW_COMPLETED
        with pytest.raises(durable.WorkflowBlocked, match="KeyError: 'cup'") as caught:
            testing.replay(history, hash_seeds=[1])
        assert "in breaks_when_told" in caught.value.data["traceback"]


@pytest.mark.django_db(transaction=True)
def test_a_fan_out_of_ten_activities_that_end_in_any_order_replays_equal_a_hundred_times() -> None:
    """Faults R1: a hundred workflows, each with another order of results and of turns in between."""
    chance = random.Random(1)
    driver = Driver(cached=50)
    handles = [get_workflow(driver.start(plant.parts, given)) for given in range(100)]
    while driver.turn(limit=200).workflows:
        pass
    claims = driver.claim(limit=2_000)
    assert len(claims) == 1_000
    chance.shuffle(claims)
    while claims:
        batch, claims = claims[: (size := chance.randint(1, 60))], claims[size:]
        driver.complete(*batch, payload="7")
        driver.turn(limit=chance.randint(1, 30))
    testing.drain()
    histories = [testing.export_history(handle) for handle in handles]
    orders = {tuple(e["ordinal"] for e in h["events"] if e["type"] == "activity_completed") for h in histories}
    assert len(orders) > 90
    assert all(history["status"] == "completed" for history in histories)
    assert [replayed.drift for replayed in testing.replay_all(histories, hash_seeds=[3])] == [0] * 100


@pytest.mark.django_db
def test_a_divergence_is_recorded_once_parks_the_workflow_and_shows_what_differs() -> None:
    """Faults R1: expected against found, in the history and in the error."""
    with registry.isolated():
        first = durable.activity(name="changing.first")(_one)
        second = durable.activity(name="changing.second")(_two)

        async def before() -> None:
            await first.execute()
            await durable.wait_for_signal("go")

        async def after() -> None:
            await second.execute()
            await durable.wait_for_signal("go")

        handle = durable.workflow(name="changing")(before).start()
        testing.drain()
        with registry.isolated():
            durable.activity(name="changing.second")(_two)
            durable.workflow(name="changing")(after)
            exported = testing.export_history(handle)
            handle.signal("go")
            testing.drain()
            testing.drain()
            with pytest.raises(NonDeterminism) as caught:
                testing.run(handle)
            with pytest.raises(NonDeterminism) as replayed:
                testing.replay_here(exported)
        history = testing.export_history(handle)
    assert types_of(history).count("workflow_blocked") == 1
    assert handle.status() is durable.WorkflowStatus.RUNNING
    for error in (caught.value, replayed.value):
        assert error.position == 2
        assert "changing.first" in error.recorded
        assert "changing.second" in error.asked


def _one() -> int:
    return 1


def _two() -> int:
    return 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("turns", ["after each", "once for all"])
@pytest.mark.parametrize("order", list(itertools.permutations(["completion", "signal", "timer"])), ids=" ".join)
def test_events_are_applied_in_the_order_in_which_they_came(order: tuple[str, ...], turns: str) -> None:
    """Faults R2: signal, timer and completion in every order, fed one by one and together."""
    with testing.freeze(NOON):
        driver = Driver()
        handle = get_workflow(driver.start(plant.race))
        driver.turn()
        (claim,) = driver.claim(lease_for=timedelta(days=1))
        doing: dict[str, Callable[[], Any]] = {
            "completion": lambda: driver.complete(claim, payload='"parcel"'),
            "signal": lambda: handle.signal("go"),
            "timer": lambda: testing.move(HOUR),
        }
        for what in order:
            doing[what]()
            if turns == "after each":
                driver.turn()
            testing.move(MINUTE)
        testing.drain()
        assert handle.result(timeout=0) == list(order)
        exported = testing.export_history(handle)
    assert testing.replay_here(exported).drift == 0


@pytest.mark.django_db
def test_a_decision_by_what_the_process_knows_is_found_by_a_fresh_one() -> None:
    """Faults R3: the replay here agrees, since this process knows it, too."""
    plant.SEEN.add(5)
    try:
        handle = plant.remembering.start(5)
        assert testing.run(handle) == "known"
        exported = testing.export_history(handle)
        testing.replay_here(exported)
        with pytest.raises(NonDeterminism, match=r"the code asks for a call of plant.ship") as caught:
            testing.replay(exported)
        assert "in a fresh process with PYTHONHASHSEED=1" in "".join(caught.value.__notes__)
    finally:
        plant.SEEN.clear()


@pytest.mark.django_db
def test_an_order_that_depends_on_the_hash_seed_is_found() -> None:
    """Faults R3: at least one of two other seeds brings another order of eight words."""
    handle = plant.unordered.start()
    testing.run(handle)
    exported = testing.export_history(handle)
    testing.replay_here(exported)
    with pytest.raises(NonDeterminism, match=r"plant\.note"):
        testing.replay(exported)


@pytest.mark.django_db
def test_a_faithful_history_replays_in_fresh_processes_as_well() -> None:
    """Faults R3."""
    handle = plant.checkout.start(42)
    testing.run(handle)
    assert testing.replay(testing.export_history(handle)).closed is EventType.WORKFLOW_COMPLETED


@pytest.mark.django_db
def test_a_changed_input_of_an_activity_is_a_divergence() -> None:
    """Faults R5: what changes inputs only does not go unnoticed."""
    handle = plant.checkout.start(42)
    testing.drain()
    text = json.dumps(testing.export_history(handle))
    other = json.loads(text.replace('{\\"order_id\\":42}', '{\\"order_id\\":43}'))
    with pytest.raises(NonDeterminism) as caught:
        testing.replay_here(other)
    assert "plant.charge" in caught.value.recorded
    assert "plant.charge" in caught.value.asked
    assert caught.value.recorded != caught.value.asked


@pytest.mark.django_db
def test_another_result_is_a_divergence() -> None:
    handle = plant.lengthy.start(2)
    testing.run(handle)
    exported = testing.export_history(handle)
    exported["events"][-1]["data"] = {"result": "3"}
    with pytest.raises(NonDeterminism, match="the history records the result 3, the code asks for the result 2"):
        testing.replay_here(exported)


class Nonce(JsonCodec):
    """Writes the same value differently each time, as encryption does."""

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        return os.urandom(4).hex() + text

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        return text[8:]


@pytest.mark.django_db
def test_a_codec_that_encrypts_replays(settings: Any) -> None:
    """Its randomness is its own business, and what it writes is compared as values."""
    settings.DURABLE = {"CODEC": f"{__name__}.Nonce"}
    handle = plant.checkout.start(42)
    testing.run(handle)
    exported = testing.export_history(handle)
    assert exported["events"][2]["data"]["result"][8:].startswith("{")
    assert testing.replay_here(exported).closed is EventType.WORKFLOW_COMPLETED


@pytest.mark.django_db
def test_other_code_can_be_named_for_a_history() -> None:
    handle = plant.watched_clock.start()
    testing.run(handle)
    with pytest.raises(NonDeterminism, match="records the workflow's completion, the code asks for nothing"):
        testing.replay(testing.export_history(handle), plant.lost)
    assert testing.replay(testing.export_history(handle), plant.watched_clock, hash_seeds=[]).events == 2


@pytest.mark.django_db
def test_code_that_no_other_process_can_import_is_said_so() -> None:
    with registry.isolated():

        async def local() -> str:
            return "here"

        handle = durable.workflow(name="local")(local).start()
        testing.run(handle)
        with pytest.raises(testing.NotReplayable, match="use replay_here"):
            testing.replay(testing.export_history(handle))
        assert testing.replay_here(testing.export_history(handle)).events == 2
