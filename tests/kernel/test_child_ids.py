"""The ids of children: known at the call, and in replay those that were recorded."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import durable
from durable.decorators.workflows import workflow
from durable.kernel.history.commands import StartChild
from durable.kernel.replay.child_ids import child_id
from tests.kernel.harness import EPOCH, WORKFLOW_ID, child_done, commands, done, echo, play, replayed


@workflow(name="tests.child_ids.parcel")
async def parcel(n: int) -> int:
    return n


@workflow(name="tests.child_ids.letter")
async def letter(n: int) -> int:
    return n


def test_the_id_has_the_form_of_a_uuid7_of_the_workflows_time_and_is_known_at_once() -> None:
    async def flow() -> Any:
        first, second = parcel.execute(1), parcel.execute(1)
        return [str(first.id), first.type, first.key, str(second.id), await first, await second]

    story = play(flow, child_done(1, 7), child_done(2, 8))
    started = commands(story, StartChild)
    assert story.result == [str(started[0].child), "tests.child_ids.parcel", None, str(started[1].child), 7, 8]
    assert [one.child for one in started] == [child_id(WORKFLOW_ID, 1, n, EPOCH) for n in (1, 2)]
    for one in started:
        assert (one.child.version, one.child.variant) == (7, uuid.RFC_4122)
        assert one.child.int >> 80 == int(EPOCH.timestamp() * 1000)


def test_ids_differ_by_workflow_run_and_number_and_not_by_the_random_generator() -> None:
    other = uuid.uuid4()
    ids = {child_id(owner, run, number, EPOCH) for owner in (WORKFLOW_ID, other) for run in (1, 2) for number in (1, 2)}
    assert len(ids) == 8

    async def flow(draws: int) -> Any:
        for _ in range(draws):
            durable.uuid4()
        return await parcel.execute(1)

    stories = [play(flow, child_done(1, 1), draws=draws) for draws in (0, 3)]
    assert len({commands(story, StartChild)[0].child for story in stories}) == 1


def test_in_replay_the_recorded_id_counts_when_calls_have_changed_places() -> None:
    async def recorded() -> Any:
        one, two = parcel.execute(1), letter.execute(2)
        return [str(one.id), str(two.id), await one, await two]

    async def turned() -> Any:
        two, one = letter.execute(2), parcel.execute(1)
        return [str(one.id), str(two.id), await one, await two]

    story = play(recorded, child_done(1, 1), child_done(2, 2))
    again = replayed(turned, story.history)
    assert again.drift == 1
    again.close()


def test_an_equal_call_that_was_withdrawn_keeps_its_own_id_in_replay() -> None:
    async def flow() -> Any:
        first = parcel.execute(1)
        task = asyncio.create_task(first)
        task.cancel()
        await asyncio.sleep(0)
        second = parcel.execute(1)
        return [await echo.execute(str(first.id)), await second]

    story = play(flow, done(2, "x"), child_done(1, 5))
    assert [one.child for one in commands(story, StartChild)] == [child_id(WORKFLOW_ID, 1, 2, EPOCH)]


def test_the_end_of_a_child_is_fed_although_the_code_no_longer_makes_a_call_that_left_no_trace() -> None:
    async def recorded() -> Any:
        withdrawn = asyncio.create_task(letter.execute(9))
        withdrawn.cancel()
        await asyncio.sleep(0)
        return await parcel.execute(1)

    async def mended() -> Any:
        return await parcel.execute(1)

    waiting, ended = play(recorded), play(recorded, child_done(1, 5))
    id = child_id(WORKFLOW_ID, 1, 2, EPOCH)
    assert [one.child for one in commands(waiting, StartChild)] == [id]
    again = replayed(mended, waiting.history)
    assert again.call_of_child(id) == 1  # else the message of its end is only consumed, and the parent waits for ever
    again.close()
    replayed(mended, ended.history).close()
