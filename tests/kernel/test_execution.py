"""The contract of an execution: sequence numbers, ordinals, what is open, limits, weight."""

from __future__ import annotations

import asyncio
import contextlib
import math
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.errors import WorkflowBlocked
from durable.kernel.definitions.registry import registry
from durable.kernel.definitions.retry import Retry
from durable.kernel.history.commands import CancelActivity, CompleteWorkflow, ScheduleActivity
from durable.kernel.history.events import Event, EventType
from durable.kernel.replay.execution import Awaits, Execution
from tests.kernel.harness import (
    EPOCH,
    Driver,
    begun,
    cancel,
    check,
    done,
    echo,
    failed,
    fire,
    number,
    other,
    play,
    record,
    replayed,
    signal,
    start,
)

STARTED = Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)


def completed(seq: int, ordinal: int, result: str = "null") -> Event:
    return Event(seq, EventType.ACTIVITY_COMPLETED, {"result": result}, EPOCH, ordinal)


@dataclass
class Receipt:
    number: str
    amount: Decimal


def test_each_command_is_one_event_and_last_seq_counts_them() -> None:
    async def flow() -> int:
        return sum(await asyncio.gather(number.execute(1), number.execute(2)))

    execution = begun(flow)
    assert execution.last_seq == 0
    first, second = execution.activate(STARTED).commands
    assert isinstance(first, ScheduleActivity)
    assert isinstance(second, ScheduleActivity)
    assert (first.ordinal, first.activity, first.payload, first.options) == (1, "tests.number", '{"value":1}', {})
    assert first.digest != second.digest
    assert execution.last_seq == 3
    assert execution.activate(completed(4, 1, "10")).commands == ()
    assert execution.activate(completed(5, 2, "20")).commands == (CompleteWorkflow("30"),)
    assert execution.last_seq == 6
    assert execution.done


def test_command_carries_only_the_options_that_the_call_overrode() -> None:
    async def flow() -> None:
        await echo.options(queue="slow", retry=Retry(max_attempts=2)).execute(1)

    execution = begun(flow)
    (command,) = execution.activate(STARTED).commands
    assert isinstance(command, ScheduleActivity)
    assert set(command.options) == {"queue", "retry"}
    execution.close()


def test_event_out_of_sequence_is_refused() -> None:
    async def flow() -> None:
        await echo.execute(1)

    execution = begun(flow)
    execution.activate(STARTED)
    for seq in (2, 4):
        with pytest.raises(ValueError, match="cannot follow"):
            execution.activate(completed(seq, 1))
    execution.activate(completed(3, 1))
    with pytest.raises(ValueError, match="cannot follow"):
        execution.activate(completed(5, 1))


def test_execution_that_could_not_go_on_is_of_no_use_but_to_be_closed() -> None:
    async def flow() -> None:
        await number.execute(1)

    execution = begun(flow)
    execution.activate(STARTED)
    with pytest.raises(WorkflowBlocked):
        execution.activate(completed(3, 1, '"no number"'))
    with pytest.raises(RuntimeError, match="broken"):
        execution.activate(completed(3, 1, "1"))
    execution.close()
    assert execution.loop.is_closed()


def test_registered_pair_runs_as_it_is_written() -> None:
    with registry.isolated():

        @activity(name="shop.charge")
        def charge(order_id: int, amount: Decimal) -> Receipt:
            return Receipt(str(order_id), amount)

        @workflow(name="shop.checkout")
        async def checkout(order_id: int) -> str:
            receipt = await charge.execute(order_id, amount=Decimal("9.90"))
            await durable.sleep(timedelta(days=30))
            return f"{receipt.number} {receipt.amount}"

        story = play(checkout, done(1, {"number": "R1", "amount": "9.90"}), fire(), order_id=42)
    (command,) = story.activations[0].commands
    assert isinstance(command, ScheduleActivity)
    assert (command.activity, command.payload) == ("shop.charge", '{"order_id":42,"amount":"9.90"}')
    assert story.result == "R1 9.90"


def test_history_is_replayed_once_only() -> None:
    async def flow() -> None:
        await durable.wait_for_signal("n")

    execution = begun(flow)
    execution.replay([STARTED])
    with pytest.raises(ValueError, match="already"):
        execution.replay([STARTED])
    execution.close()


def test_later_run_begins_at_any_sequence_number_and_counts_ordinals_from_one() -> None:
    async def flow() -> None:
        await echo.execute(1)

    execution = begun(flow, run=2)
    started = Event(41, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)
    (command,) = execution.activate(started).commands
    assert isinstance(command, ScheduleActivity)
    assert command.ordinal == 1
    assert execution.last_seq == 42
    execution.close()


def _sleeping() -> Any:
    async def flow() -> None:
        await durable.sleep(60)

    return flow


def _calling() -> Any:
    async def flow() -> None:
        async with asyncio.timeout(60):
            await echo.execute(1)

    return flow


def test_time_begins_with_the_first_turn_and_replay_knows_it() -> None:
    late = EPOCH + timedelta(hours=3)
    for code in (_sleeping(), _calling()):
        live = begun(code)
        commands = live.activate(replace(STARTED, recorded_at=late)).commands
        said = [record(command, 2, late) for command in commands] or [Event(2, EventType.WORKFLOW_BEGUN, {}, late)]
        cold = replayed(code, [STARTED, *said])
        assert cold.now == live.now == late
        assert cold.next_timer() == live.next_timer()
        assert cold.last_seq == 2
        live.close()
        cold.close()


def test_workflow_that_was_ended_before_its_first_turn_never_runs() -> None:
    async def flow() -> None:
        raise AssertionError("it ran")

    execution = replayed(flow, [STARTED, Event(2, EventType.WORKFLOW_CANCELLED, {"terminated": True}, EPOCH)])
    assert execution.done
    assert execution.now is None
    execution.close()


def test_request_to_cancel_is_known_from_then_on() -> None:
    async def flow() -> None:
        try:
            await echo.execute(1)
        finally:
            await echo.execute(2)

    def after(execution: Execution) -> None:
        assert execution.cancel_requested

    def before(execution: Execution) -> None:
        assert not execution.cancel_requested

    play(flow, check(before), cancel(""), check(after), done(2))


def test_what_is_awaited_is_open_and_what_was_cancelled_or_fed_is_settled() -> None:
    async def flow() -> None:
        late = echo.execute(1)
        await echo.execute(2)
        late.cancel()
        await echo.execute(3)

    def before(execution: Execution) -> None:
        assert [execution.awaits(ordinal) for ordinal in range(4)] == [
            Awaits.UNKNOWN, Awaits.OPEN, Awaits.OPEN, Awaits.UNKNOWN,
        ]  # fmt: skip

    def after(execution: Execution) -> None:
        assert [execution.awaits(ordinal) for ordinal in range(1, 5)] == [
            Awaits.DECIDED, Awaits.DECIDED, Awaits.OPEN, Awaits.UNKNOWN,
        ]  # fmt: skip

    play(flow, check(before), done(2), check(after), done(3))


def test_activity_called_and_cancelled_in_one_activation_never_exists_and_takes_no_ordinal() -> None:
    async def flow() -> Any:
        echo.execute("never").cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(echo.execute("nor this"), 0)
        return await other.execute("this")

    assert play(flow, done(1, "x")).told == ["started", "scheduled 1 other", "completed 1", "completed"]


def test_cancelling_a_call_asks_for_the_cancellation_of_its_row_once() -> None:
    async def flow() -> None:
        call = echo.execute(1)
        await durable.wait_for_signal("n")
        assert call.cancel()
        assert not call.cancel()
        await durable.wait_for_signal("m")

    story = play(flow, signal("n"), signal("m"))
    assert story.activations[1].commands == (CancelActivity(1),)


def test_call_may_be_made_first_and_awaited_later_and_more_than_once() -> None:
    async def flow() -> list[Any]:
        call = echo.execute(1)
        await durable.sleep(5)
        return [await call, await call]

    assert play(flow, done(1, "x"), fire()).result == ["x", "x"]


def test_failure_that_nobody_awaits_does_not_end_the_workflow() -> None:
    async def flow() -> Any:
        echo.execute(1)
        return await durable.wait_for_signal("n")

    assert play(flow, failed(1), signal("n", "on")).result == "on"


def test_pending_timers_are_plain_json_for_people() -> None:
    async def flow() -> None:
        await asyncio.gather(durable.sleep(20), durable.sleep(10), durable.sleep(math.inf))

    execution = begun(flow)
    execution.activate(STARTED)
    assert execution.pending_timers() == [
        {"id": [1, 2], "due": "2030-01-01T12:00:10+00:00"},
        {"id": [1, 1], "due": "2030-01-01T12:00:20+00:00"},
    ]
    execution.close()


def test_weight_grows_with_what_is_pending_and_shrinks_again() -> None:
    async def child(value: int) -> None:
        async with asyncio.timeout(5):
            await echo.execute(value)

    async def flow() -> None:
        await durable.wait_for_signal("go")
        await asyncio.gather(*(child(value) for value in range(10)))
        await durable.wait_for_signal("end")

    driver = Driver(flow, cold=False)
    start()(driver)
    light = driver.execution().weight
    signal("x", "y" * 1_000)(driver)
    assert driver.execution().weight >= light + 1_000
    signal("go")(driver)
    heavy = driver.execution().weight
    assert heavy >= light + 10 * (700 + 1_800)
    for ordinal in range(1, 11):
        done(ordinal)(driver)
    assert driver.execution().weight < heavy - 10 * (700 + 1_800)
    driver.close()


def test_batching_can_not_change_an_outcome() -> None:
    """Each input event is an activation of its own, whatever else is waiting: a result wins against a later timeout."""

    async def flow() -> str:
        try:
            async with asyncio.timeout(10):
                await echo.execute(1)
        except TimeoutError:
            return "late"
        return "in time"

    assert play(flow, done(1)).result == "in time"
    assert play(flow, fire()).result == "late"


def test_cancelled_workflow_waits_for_its_clean_up() -> None:
    async def flow() -> None:
        try:
            await durable.wait_for_signal("never")
        finally:
            await echo.execute("clean up")

    def live(execution: Execution) -> None:
        assert not execution.done
        assert execution.awaits(1) is Awaits.OPEN

    assert play(flow, cancel(), check(live), done(1)).told[-1] == "cancelled"
