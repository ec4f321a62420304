"""A signal that is not of the type asked for is an error of the code that takes it, the same one in every replay."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import durable
from durable.errors import NonDeterminism, SignalUnreadable, WorkflowBlocked
from durable.kernel.history.commands import RecordUnreadable
from durable.kernel.history.events import EventType
from tests.kernel.harness import cancel, done, echo, play, replayed, signal

CANARY = "canary-078-05-1120"


@dataclass
class Approval:
    by: str


async def waits_again() -> Any:
    refused = 0
    while True:
        try:
            approval = await durable.wait_for_signal("approval", as_type=Approval)
        except SignalUnreadable as error:
            refused += 1
            await echo.execute(str(error))
        else:
            return [approval.by, refused]


def test_an_unreadable_signal_raises_where_it_is_taken_and_the_next_one_is_waited_for() -> None:
    story = play(
        waits_again,
        signal("approval", {"by": [CANARY]}),
        done(1),
        signal("approval", 7),
        done(2),
        signal("approval", {"by": "me"}),
    )
    assert story.result == ["me", 2]
    assert story.told == [
        "started", "signal approval", "marker_recorded", "scheduled 1 echo", "completed 1", "signal approval",
        "marker_recorded", "scheduled 2 echo", "completed 2", "signal approval", "completed",
    ]  # fmt: skip
    marker = story.history[2]
    assert marker.data["seq"] == 2
    assert marker.data["problem"].startswith("signal approval.by: the stored list is not text")
    assert CANARY not in str(marker.data)


def test_one_that_was_kept_raises_in_the_activation_that_takes_it() -> None:
    async def code() -> Any:
        await echo.execute("first")
        with pytest.raises(SignalUnreadable) as caught:
            await durable.wait_for_signal("approval", as_type=Approval)
        return caught.value.name

    story = play(code, signal("approval", 1), done(1))
    assert story.result == "approval"
    assert story.told[-2:] == ["marker_recorded", "completed"]
    assert story.activations[-1].commands[0] == RecordUnreadable(3, story.history[-2].data["problem"])


def test_a_workflow_that_does_not_catch_it_fails_and_its_history_replays() -> None:
    async def code() -> None:
        await durable.wait_for_signal("approval", as_type=Approval)

    story = play(code, signal("approval", 1))
    assert story.told == ["started", "signal approval", "marker_recorded", "failed"]
    assert story.end.data["failure"]["type"] == "durable.errors.SignalUnreadable"


def test_a_request_to_cancel_and_a_time_limit_go_on_beside_it() -> None:
    async def code() -> Any:
        try:
            await waits_again()
        except asyncio.CancelledError:
            return "cleaned up"

    story = play(code, signal("approval", 1), done(1), cancel())
    assert story.result == "cleaned up"


async def takes_anything() -> Any:
    try:
        value: Any = await durable.wait_for_signal("approval", as_type=int)
    except SignalUnreadable as error:
        value = str(error)
    await echo.execute(value)


def test_an_unreadable_signal_raises_again_in_a_replay_under_a_type_that_could_read_it() -> None:
    history = play(waits_again, signal("approval", 1)).history
    replayed(takes_anything, history).close()


def test_one_that_was_read_when_it_was_recorded_blocks_under_a_type_that_cannot_read_it() -> None:
    history = play(takes_anything, signal("approval", 1)).history
    with pytest.raises(WorkflowBlocked, match="cannot be read"):
        replayed(waits_again, history)


def test_code_that_takes_no_such_signal_any_more_differs_from_its_history() -> None:
    async def takes_none() -> None:
        await echo.execute("nothing")

    history = play(waits_again, signal("approval", 1)).history
    with pytest.raises(NonDeterminism):
        replayed(takes_none, history)


def test_a_payload_that_the_codec_cannot_open_blocks_instead() -> None:
    def broken(driver: Any) -> None:
        driver.feed(EventType.SIGNAL_RECEIVED, {"name": "approval", "payload": "{"})

    with pytest.raises(WorkflowBlocked, match="not JSON"):
        play(waits_again, broken)
