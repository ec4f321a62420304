"""What an input event does, and how a workflow ends."""

from __future__ import annotations

import asyncio
import sys
from decimal import Decimal
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.decorators.activities import Activity
from durable.errors import ActivityError, NonDeterminism, StackExhausted, WorkflowBlocked
from durable.kernel.history.events import Event, EventType
from tests.kernel.harness import (
    EPOCH,
    Driver,
    begun,
    cancel,
    done,
    echo,
    failed,
    fire,
    number,
    other,
    play,
    replayed,
    signal,
    start,
    wait,
)

STARTED = Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)


def _price(value: int) -> Decimal:
    return Decimal(value)


price: Any = Activity(_price, name="tests.price")


# --- input ----------------------------------------------------------------------------------------------------------


def test_arguments_are_decoded_by_the_annotations() -> None:
    async def flow(amount: Decimal, *, note: str = "none") -> str:
        return f"{type(amount).__name__} {note}"

    assert play(flow, amount="9.90").result == "Decimal none"


def test_arguments_that_do_not_decode_block_the_workflow() -> None:
    async def flow(amount: Decimal) -> None: ...

    for stored in ('{"amount":"nine"}', "{}", '{"amount":"1","more":2}', "not json"):
        execution = begun(flow)
        with pytest.raises(WorkflowBlocked, match="arguments cannot be read"):
            execution.activate(Event(1, EventType.WORKFLOW_STARTED, {"input": stored}, EPOCH))
        execution.close()


def test_results_are_decoded_by_the_activitys_annotation() -> None:
    async def flow() -> str:
        return type(await price.execute(1)).__name__

    assert play(flow, done(1, "9.90")).result == "Decimal"


def test_result_that_does_not_decode_blocks_the_workflow_and_loses_nothing() -> None:
    """P9: a deploy may bring the code that can read it."""

    async def flow() -> Any:
        return await price.execute(1)

    driver = Driver(flow, cold=False)
    start()(driver)
    with pytest.raises(WorkflowBlocked, match=r"result of tests\.price \(activity 1\)") as caught:
        done(1, "nine")(driver)
    assert caught.value.data["position"] == 3
    driver.close()


def test_failure_is_raised_with_the_original_type_message_and_traceback() -> None:
    """P4, P5: text of the original, never an object rebuilt from it."""

    async def flow() -> list[Any]:
        try:
            await echo.execute(1)
        except ActivityError as error:
            return [error.activity, error.ordinal, error.type, error.message, error.traceback, error.attempts]
        return []

    assert play(flow, failed(1)).result == [
        "tests.echo", 1, "shop.CardRefused", "no money", "shop.CardRefused: no money", 5,
    ]  # fmt: skip


def test_outcome_of_an_activity_that_the_code_does_not_await_is_non_determinism() -> None:
    async def flow() -> None:
        await durable.wait_for_signal("n")

    for type, data in ((EventType.ACTIVITY_COMPLETED, {"result": "1"}), (EventType.ACTIVITY_FAILED, {"failure": {}})):
        with pytest.raises(NonDeterminism) as caught:
            replayed(flow, [STARTED, Event(2, type, data, EPOCH, 1)])
        assert caught.value.position == 2
        assert "activity 1" in caught.value.recorded


def test_history_begins_with_one_start() -> None:
    async def flow() -> None:
        await durable.wait_for_signal("n")

    with pytest.raises(NonDeterminism):
        replayed(flow, [Event(1, EventType.SIGNAL_RECEIVED, {"name": "n", "payload": "1"}, EPOCH)])
    execution = replayed(flow, [STARTED])
    with pytest.raises(NonDeterminism):
        execution.activate(Event(2, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH))
    execution.close()


# --- ends -----------------------------------------------------------------------------------------------------------


def test_result_is_encoded_by_the_annotation() -> None:
    async def flow() -> Decimal:
        return Decimal("1.50")

    assert play(flow).end.data["result"] == '"1.50"'


def test_result_that_can_not_be_encoded_fails_the_workflow_with_the_path() -> None:
    """P3: a stored, readable failure."""

    async def flow() -> dict[str, float]:
        return {"price": float("nan")}

    failure = play(flow).end.data["failure"]
    assert failure["type"].endswith(".PayloadError")
    assert "price" in failure["message"]


def test_error_of_the_code_fails_the_workflow_as_text() -> None:
    class Odd(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(one)

        def __str__(self) -> str:
            raise RuntimeError

    async def flow() -> None:
        raise Odd(1, 2)

    story = play(flow)
    assert story.end.type is EventType.WORKFLOW_FAILED
    assert "Odd" in story.end.data["failure"]["type"]
    assert "raise Odd" in story.end.data["failure"]["traceback"]


def test_traceback_shows_the_users_frames_only_and_no_error_of_the_engine() -> None:
    async def flow() -> None:
        await echo.execute(1)
        raise ValueError("bad")

    story = play(flow, done(1))
    assert "durable/kernel" not in story.end.data["failure"]["traceback"]
    assert "During handling" not in story.end.data["failure"]["traceback"]


@pytest.mark.parametrize("leaving", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_exit_in_user_code_fails_the_workflow_and_not_the_worker(leaving: BaseException) -> None:
    async def flow() -> None:
        raise leaving

    assert play(flow).end.data["failure"]["type"] == type(leaving).__name__


@pytest.mark.parametrize("leaving", [SystemExit, KeyboardInterrupt])
def test_exit_in_a_child_task_fails_the_workflow(leaving: type[BaseException]) -> None:
    async def child() -> None:
        raise leaving

    async def flow() -> None:
        asyncio.create_task(child())  # noqa: RUF006
        await durable.wait_for_signal("never")

    assert play(flow).end.data["failure"]["type"] == leaving.__name__


def test_cancel_request_is_the_cancellation_of_main() -> None:
    async def flow() -> None:
        await echo.execute(1)

    story = play(flow, cancel("too old"))
    assert story.told == ["started", "scheduled 1 echo", "cancel_requested", "cancelled 1", "cancelled"]
    assert story.end.data["reason"] == "too old"


def test_workflow_may_clean_up_with_activities_before_it_is_cancelled() -> None:
    async def flow() -> None:
        try:
            await echo.execute("charge")
        except asyncio.CancelledError:
            await other.execute("refund")
            raise

    story = play(flow, cancel(), done(2))
    assert story.told[2:] == ["cancel_requested", "cancelled 1", "scheduled 2 other", "completed 2", "cancelled"]


def test_workflow_that_catches_the_cancellation_completes() -> None:
    async def flow() -> str:
        try:
            await echo.execute(1)
        except asyncio.CancelledError:
            return "finished anyway"
        return "not asked"

    assert play(flow, cancel()).result == "finished anyway"


def test_cancelled_error_without_a_request_is_a_failure() -> None:
    async def flow() -> None:
        raise asyncio.CancelledError("my own")

    assert play(flow).end.data["failure"]["type"] == "asyncio.exceptions.CancelledError"


def test_second_cancel_request_cancels_the_clean_up() -> None:
    async def flow() -> None:
        try:
            await echo.execute(1)
        finally:
            await other.execute(2)

    assert play(flow, cancel(), cancel("now")).told[-2:] == ["cancelled 2", "cancelled"]


def test_tasks_left_behind_are_dropped_and_counted() -> None:
    async def child() -> None:
        await echo.execute(1)

    async def flow() -> Any:
        for _ in range(3):
            asyncio.create_task(child())  # noqa: RUF006
        return await durable.wait_for_signal("end")

    story = play(flow, done(2), signal("end", "x"))
    assert story.end.data["dropped_tasks"] == 2
    assert story.end.data["dropped_commands"] == []


def test_calls_that_nobody_can_await_any_more_are_dropped_and_named() -> None:
    async def flow() -> str:
        await echo.execute(1)
        other.execute("fire")
        number.execute(2)
        return "and forget"

    story = play(flow, done(1))
    assert story.told == ["started", "scheduled 1 echo", "completed 1", "completed"]
    assert story.end.data["dropped_commands"] == ["tests.other", "tests.number"]


def test_main_that_ends_stops_the_loop_at_once() -> None:
    async def child() -> None:
        await asyncio.sleep(0)
        other.execute("too late")

    async def flow() -> None:
        asyncio.create_task(child())  # noqa: RUF006
        await asyncio.sleep(0)

    assert play(flow).end.data["dropped_commands"] == []


# --- the machine's troubles ------------------------------------------------------------------------------------------


def _deep(levels: int) -> int:
    return 0 if levels == 0 else 1 + _deep(levels - 1)


def test_recursion_error_blocks_and_is_not_recorded() -> None:
    async def flow() -> int:
        return _deep(sys.getrecursionlimit() + 100)

    execution = begun(flow)
    with pytest.raises(StackExhausted):
        execution.activate(STARTED)
    execution.close()


def test_recursion_error_is_found_behind_other_errors_and_in_child_tasks() -> None:
    async def wrapped() -> None:
        try:
            _deep(sys.getrecursionlimit() + 100)
        except RecursionError as error:
            raise ValueError("wrapped") from error

    async def flow() -> str:
        results = await asyncio.gather(wrapped(), return_exceptions=True)
        return str(len(results))

    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wrapped())

    for code in (wrapped, flow, grouped):
        execution = begun(code)
        with pytest.raises(StackExhausted):
            execution.activate(STARTED)
        execution.close()


def test_recursion_error_in_a_callback_blocks_as_well(caplog: pytest.LogCaptureFixture) -> None:
    async def flow() -> None:
        asyncio.get_running_loop().call_soon(_deep, sys.getrecursionlimit() + 100)
        await durable.wait_for_signal("n")

    execution = begun(flow)
    with pytest.raises(StackExhausted):
        execution.activate(STARTED)
    execution.close()


def test_out_of_memory_blocks_and_is_not_recorded() -> None:
    async def flow() -> None:
        raise MemoryError

    execution = begun(flow)
    with pytest.raises(WorkflowBlocked, match="memory"):
        execution.activate(STARTED)
    execution.close()


def test_recursion_of_one_depth_works_from_a_shallow_and_from_a_deep_caller() -> None:
    async def flow() -> int:
        return _deep(600)

    def from_deep(levels: int) -> int:
        return int(play(flow).result) if levels == 0 else from_deep(levels - 1)

    assert play(flow).result == 600
    assert from_deep(300) == 600


def test_time_of_the_last_event_is_now() -> None:
    async def flow() -> list[str]:
        seen = [durable.now().isoformat()]
        await echo.execute(1)
        seen.append(durable.now().isoformat())
        await durable.sleep(5)
        return [*seen, durable.now().isoformat()]

    story = play(flow, wait(9), done(1), fire())
    assert story.result == [event.recorded_at.isoformat() for event in story.history if event.seq in (1, 3, 4)]
