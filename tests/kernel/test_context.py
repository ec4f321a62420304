"""Time, randomness and logging that replay alike, and nothing of it outside a workflow."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.decorators.activities import Activity
from durable.errors import InsideWorkflow, OutsideWorkflow
from durable.kernel.history.commands import ScheduleActivity
from durable.kernel.history.events import Event, EventType
from tests.kernel.harness import EPOCH, WORKFLOW_ID, begun, done, echo, play, replayed, signal

DURABLE_CALLS: dict[str, Callable[[], Any]] = {
    "now": durable.now,
    "uuid4": durable.uuid4,
    "random": durable.random,
    "rng": durable.rng,
    "current": durable.current,
    "workflow_info": durable.workflow_info,
    "patched": lambda: durable.patched("n"),
    "sleep": lambda: durable.sleep(1),
    "wait_for_signal": lambda: durable.wait_for_signal("n"),
    "execute": lambda: echo.execute(1),
    "schedule": lambda: durable.schedule(echo, "{}", "", {}),
}


@pytest.mark.parametrize("call", DURABLE_CALLS.values(), ids=DURABLE_CALLS)
def test_durable_call_outside_a_workflow_raises(call: Callable[[], Any]) -> None:
    with pytest.raises(OutsideWorkflow):
        call()

    async def other_loop() -> None:
        with pytest.raises(OutsideWorkflow):
            call()

    asyncio.run(other_loop())


def test_code_that_was_left_suspended_can_not_be_driven_from_outside() -> None:
    async def flow() -> None:
        await echo.execute(1)

    execution = begun(flow)
    execution.activate(Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH))
    with pytest.raises(OutsideWorkflow):
        durable.now()
    execution.close()


def test_plain_call_of_an_activity_in_a_workflow_raises_with_advice() -> None:
    async def flow() -> str:
        try:
            echo(1)
        except InsideWorkflow as error:
            return str(error)
        return "called"

    assert ".execute" in play(flow).result
    assert echo(1) == 1, "and elsewhere it runs the function"


def test_randomness_is_the_same_in_every_replay_and_differs_by_workflow_and_run() -> None:
    async def flow() -> list[Any]:
        first = [str(durable.uuid4()), durable.random(), durable.rng().choice(range(1_000_000))]
        await echo.execute(1)
        return [*first, str(durable.uuid4())]

    story = play(flow, done(1))
    assert play(flow, done(1)).result == story.result
    assert uuid.UUID(story.result[0]).version == 4
    assert 0 <= story.result[1] < 1
    assert story.result[0] != story.result[3]
    drawn = []
    for workflow_id, run in ((uuid.UUID(int=1), 1), (uuid.UUID(int=1), 2), (uuid.UUID(int=2), 1)):
        execution = begun(flow, workflow_id=workflow_id, run=run)
        drawn.append(execution.rng.random())
        execution.close()
    assert len(set(drawn)) == 3


def test_a_workflow_learns_its_own_id_key_type_and_run() -> None:
    async def flow() -> list[Any]:
        info = durable.workflow_info()
        await echo.execute([str(info.id), info.key, info.type, info.run])
        return [durable.workflow_info().run]

    execution = begun(flow, run=3)
    (command,) = execution.activate(Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)).commands
    assert isinstance(command, ScheduleActivity)
    assert json.loads(command.payload)["value"] == [str(WORKFLOW_ID), None, "tests.flow", 3]
    execution.close()


def test_a_workflow_that_was_reopened_learns_the_run_in_which_each_event_was_recorded() -> None:
    runs: list[int] = []

    async def flow() -> None:
        runs.append(durable.workflow_info().run)
        await durable.wait_for_signal("n")
        runs.append(durable.workflow_info().run)

    history = [
        Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH),
        Event(2, EventType.WORKFLOW_BEGUN, {}, EPOCH),
        Event(3, EventType.WORKFLOW_REOPENED, {"keeps": [[1, 2]]}, EPOCH),
    ]
    replayed(flow, history, run=2).activate(Event(4, EventType.SIGNAL_RECEIVED, {"name": "n", "payload": "1"}, EPOCH))
    assert runs == [1, 2]


def test_current_answers_the_running_execution() -> None:
    async def flow() -> str:
        return f"{durable.current().workflow_id} {durable.current().run}"

    assert play(flow).result == "01990000-0000-7000-8000-00000000002a 1"


def test_logger_speaks_once_with_the_workflows_id_and_is_silent_in_replay(caplog: pytest.LogCaptureFixture) -> None:
    async def flow() -> None:
        durable.logger.info("began %s", 1, extra={"order": 42})
        await durable.wait_for_signal("n")
        durable.logger.info("ended")

    started = Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)
    end = Event(2, EventType.SIGNAL_RECEIVED, {"name": "n", "payload": "1"}, EPOCH)
    with caplog.at_level(logging.INFO, logger="durable.workflow"):
        execution = begun(flow)
        execution.activate(started)
        execution.close()
        assert [record.getMessage() for record in caplog.records] == ["began 1"]
        assert vars(caplog.records[0])["workflow_id"] == "01990000-0000-7000-8000-00000000002a"
        assert (vars(caplog.records[0])["run"], vars(caplog.records[0])["order"]) == (1, 42)
        caplog.clear()
        replayed(flow, [started]).activate(end)
        assert [record.getMessage() for record in caplog.records] == ["ended"]


def test_logger_is_a_plain_one_outside_workflows(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="durable.workflow"):
        durable.logger.info("from anywhere")
    assert caplog.records[0].getMessage() == "from anywhere"


def test_activity_written_async_is_called_durably_all_the_same() -> None:
    async def handler(value: int) -> str:
        return str(value)

    remote: Activity[Any, Any] = Activity(handler, name="tests.remote")

    async def flow() -> Any:
        return await remote.execute(1)

    assert play(flow, done(1, "one")).result == "one"


def test_wrong_arguments_are_refused_at_the_call() -> None:
    async def flow() -> list[str]:
        seen = []
        for call in (lambda: echo.execute(), lambda: echo.execute(float("nan"))):
            try:
                call()
            except Exception as error:
                seen.append(type(error).__name__)
        return [*seen, await durable.wait_for_signal("n")]

    assert play(flow, signal("n", "on")).result == ["ArgumentsMismatch", "PayloadError", "on"]
