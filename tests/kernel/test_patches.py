"""`durable.patched`: runs that began before a change take the old way, all others the new one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import durable
from durable.errors import KeyInvalid, NonDeterminism, OutsideWorkflow, WorkflowBlocked
from durable.kernel.history.commands import RecordPatch
from durable.kernel.history.events import Event, EventType
from durable.kernel.replay import patches
from tests.kernel.harness import EPOCH, Driver, begun, done, echo, other, play, replayed, start

CHECK = "fraud-check"


async def before() -> Any:
    """The code before the change."""
    await echo.execute("first")
    await echo.execute("old")
    await echo.execute("last")


async def between() -> Any:
    """The code that knows both ways."""
    await echo.execute("first")
    if durable.patched(CHECK):
        await other.execute("new")
    else:
        await echo.execute("old")
    await echo.execute("last")


async def after() -> Any:
    """The code that has forgotten the old one."""
    await echo.execute("first")
    await other.execute("new")
    await echo.execute("last")


def recorded_by(code: Any, *ordinals: int) -> list[Event]:
    """The history of a run in which these activities have ended."""
    driver = Driver(code, cold=False)
    start()(driver)
    for ordinal in ordinals:
        done(ordinal)(driver)
    driver.close()
    return driver.history


def next_of(code: Any, history: list[Event], ordinal: int) -> list[Any]:
    """What the code asks for, replayed on the history, when this activity has ended."""
    execution = replayed(code, history)
    event = Event(len(history) + 1, EventType.ACTIVITY_COMPLETED, {"result": "null"}, history[-1].recorded_at, ordinal)
    commands = execution.activate(event).commands
    answers = dict(execution.patches.answers)
    execution.close()
    return [answers, *commands]


class TestTheWay:
    def test_a_new_run_takes_the_new_way_and_records_it_before_what_follows(self) -> None:
        story = play(between, done(1), done(2), done(3))
        assert story.told == [
            "started", "scheduled 1 echo", "completed 1", "marker_recorded", "scheduled 2 other", "completed 2",
            "scheduled 3 echo", "completed 3", "completed",
        ]  # fmt: skip
        assert story.history[3].data == {"kind": "patch", "id": CHECK}
        assert story.activations[1].commands[0] == RecordPatch(CHECK)

    def test_a_history_without_the_marker_takes_the_old_way_and_keeps_to_it_live(self) -> None:
        async def asks_again() -> Any:
            await between()
            return durable.patched(CHECK)

        history = recorded_by(before, 1)
        answers, *commands = next_of(asks_again, history, 2)
        assert answers == {CHECK: False}
        assert [command.activity for command in commands] == ["tests.echo"]
        driver = Driver(asks_again, cold=False, history=history)
        for ordinal in (2, 3):
            done(ordinal)(driver)
        assert driver.history[-1].data["result"] == "false"
        driver.close()

    def test_a_run_that_has_not_come_there_takes_the_new_way(self) -> None:
        answers, *commands = next_of(between, recorded_by(before), 1)
        assert answers == {CHECK: True}
        assert [type(command).__name__ for command in commands] == ["RecordPatch", "ScheduleActivity"]

    def test_the_new_way_replays_when_the_if_is_gone(self) -> None:
        for ordinals in ((1,), (1, 2), (1, 2, 3)):
            replayed(after, recorded_by(between, *ordinals)).close()

    def test_a_run_on_the_old_way_does_not_replay_when_it_is_gone(self) -> None:
        with pytest.raises(NonDeterminism) as caught:
            replayed(after, recorded_by(before, 1))
        assert (caught.value.position, "tests.other" in caught.value.asked) == (4, True)

    def test_a_marker_that_is_passed_over_moves_no_position(self) -> None:
        async def too_much() -> Any:
            await echo.execute("first")
            other.execute("new")
            await other.execute("more")

        with pytest.raises(NonDeterminism) as caught:
            replayed(too_much, recorded_by(between, 1))
        assert caught.value.position == 6

    def test_another_marker_is_not_passed_over(self) -> None:
        history = recorded_by(between, 1)
        history[3] = Event(4, EventType.MARKER_RECORDED, {"kind": "unreadable", "seq": 3}, history[3].recorded_at)
        with pytest.raises(NonDeterminism):
            replayed(after, history)


class TestOneAnswer:
    def test_of_one_id_is_recorded_once_in_an_activation_in_tasks_and_in_any_order(self) -> None:
        async def ask(first: str, second: str) -> list[bool]:
            return [durable.patched(first), durable.patched(second)]

        async def code() -> Any:
            one = await asyncio.gather(ask("a", "b"), ask("b", "a"))
            await echo.execute("first")
            return [one, durable.patched("b")]

        story = play(code, done(1))
        assert story.told.count("marker_recorded") == 2
        assert story.result == [[[True, True], [True, True]], True]

    def test_asked_in_another_order_than_recorded_is_no_difference(self) -> None:
        def asking(*ids: str) -> Any:
            async def code() -> Any:
                answers = [durable.patched(id) for id in ids]
                await echo.execute("first")
                return answers

            return code

        history = recorded_by(asking("a", "b"))
        execution = replayed(asking("b", "a", "c"), history)
        assert execution.drift == 0
        assert execution.patches.answers == {"a": True, "b": True, "c": False}
        execution.close()

    def test_a_marker_of_a_later_round_does_not_answer_earlier_ones(self) -> None:
        def rounds(asks_from: int) -> Any:
            async def code() -> Any:
                answers = []
                for number in range(1, 5):
                    answers.append(durable.patched(f"round-{number}") if number >= asks_from else None)
                    await echo.execute(number)
                return answers

            return code

        history = recorded_by(rounds(4), 1, 2, 3)
        execution = replayed(rounds(1), history)
        assert execution.patches.answers == {"round-1": False, "round-2": False, "round-3": False, "round-4": True}
        execution.close()

    def test_one_id_for_all_rounds_keeps_the_first_answer(self) -> None:
        async def old() -> Any:
            for number in range(4):
                await echo.execute(number)

        async def new() -> Any:
            for number in range(4):
                await (other if durable.patched(CHECK) else echo).execute(number)

        answers, command = next_of(new, recorded_by(old, 1), 2)
        assert (answers, command.activity) == ({CHECK: False}, "tests.echo")
        story = play(new, done(1), done(2), done(3), done(4))
        assert story.told.count("marker_recorded") == 1

    def test_a_later_run_asks_anew(self) -> None:
        driver = Driver(between, cold=False, history=recorded_by(before, 1))
        execution = driver.execution()
        assert execution.patches.answers == {CHECK: False}
        with execution.loop.turn:
            execution._enter(2)  # what continue-as-new and reopen do; neither is there yet
        assert execution.patches.answers == {}
        driver.close()

    def test_in_the_last_activation_it_is_recorded_before_the_end(self) -> None:
        async def code() -> bool:
            return durable.patched(CHECK)

        story = play(code)
        assert story.told == ["started", "marker_recorded", "completed"]
        assert story.result is True


class TestRefused:
    @pytest.mark.parametrize("id", ["", "x" * 201, 7, "a\0b"])
    def test_an_id_that_cannot_be_kept(self, id: Any) -> None:
        async def code() -> Any:
            with pytest.raises(KeyInvalid, match="patch"):
                durable.patched(id)
            return durable.patched("x" * 200)

        assert play(code).result is True

    def test_outside_of_a_workflow(self) -> None:
        with pytest.raises(OutsideWorkflow, match="patched"):
            durable.patched(CHECK)

    def test_more_than_a_thousand_ids_block_whatever_the_code_catches(self) -> None:
        async def code() -> Any:
            for number in range(patches.MOST):
                durable.patched(f"patch-{number}")
            assert durable.patched("patch-7")
            try:
                durable.patched("one-more")
            except BaseException:
                await echo.execute("went on")

        execution = begun(code)
        with pytest.raises(WorkflowBlocked, match="more than 1,000 patches") as caught:
            execution.activate(
                Event(1, EventType.WORKFLOW_STARTED, {"type": "tests", "input": "{}", "python": "3.11"}, EPOCH)
            )
        assert "one-more" in str(caught.value)
        execution.close()
