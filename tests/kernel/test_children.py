"""Children and signals to others as workflow code sees them: ids, futures, errors, and what is recorded."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import durable
from durable.decorators.workflows import workflow
from durable.errors import (
    ArgumentsMismatch,
    InsideWorkflow,
    KeyInvalid,
    NonDeterminism,
    NotRegistered,
    OptionInvalid,
    OutsideWorkflow,
    PayloadError,
)
from durable.kernel.history.commands import CancelChild, FailWorkflow, SendSignal, StartChild
from durable.kernel.history.events import Event, EventType
from durable.kernel.replay.child_ids import child_id
from tests.kernel.harness import (
    EPOCH,
    WORKFLOW_ID,
    cancel,
    child_done,
    child_failed,
    commands,
    done,
    echo,
    fire,
    play,
    replayed,
    signal,
)


@workflow(name="tests.parcel")
async def parcel(n: int) -> int:
    return n


@workflow(name="tests.letter")
async def letter(n: int) -> int:
    return n


FAILURE = {"type": "shop.Lost", "message": "gone", "traceback": "shop.Lost: gone"}


def test_a_child_is_started_with_the_activation_and_its_result_is_typed() -> None:
    @workflow(name="tests.dated")
    async def dated() -> datetime:
        return datetime.now(UTC)

    async def flow() -> str:
        return (await dated.execute()).isoformat()

    story = play(flow, child_done(1, "2030-01-01T12:00:00Z"))
    assert story.told == ["started", "child 1 dated", "child_completed 1", "completed"]
    assert story.result == "2030-01-01T12:00:00+00:00"


def test_a_child_that_nobody_awaits_is_started_all_the_same() -> None:
    async def flow() -> Any:
        parcel.execute(1)
        return await echo.execute("a")

    assert play(flow, done(1 + 1, "x")).told[1:3] == ["child 1 parcel", "scheduled 2 echo"]


@pytest.mark.parametrize(
    ("end", "kind", "said"),
    [
        ({"status": "failed", "failure": FAILURE}, durable.ChildFailed, "failed with shop.Lost: gone"),
        ({"status": "cancelled", "reason": "late"}, durable.ChildCancelled, "was cancelled: late"),
        ({"status": "cancelled"}, durable.ChildCancelled, "was cancelled."),
        ({"status": "timed_out"}, durable.ChildTimedOut, "timed out."),
        ({"status": "refused", "holder": str(WORKFLOW_ID)}, durable.KeyTaken, "which is still live"),
        ({"status": "refused"}, durable.KeyTaken, "which is still live"),
    ],
)
def test_each_end_without_a_result_is_an_error_that_names_the_child(end: Any, kind: type, said: str) -> None:
    async def flow() -> Any:
        child = parcel.options(key="p-1").execute(1)
        try:
            return await child
        except (durable.ChildError, durable.KeyTaken) as error:
            of_this_child = getattr(error, "id", child.id) == child.id
            return [type(error).__name__, error.ordinal, error.workflow_type, error.key, of_this_child, str(error)]

    *which, text = play(flow, child_failed(1, **end)).result
    assert which == [kind.__name__, 1, "tests.parcel", "p-1", True]
    assert said in text


@pytest.mark.parametrize(
    "end", [{"status": "failed", "failure": FAILURE}, {"status": "refused"}, {"status": "timed_out"}]
)
def test_an_error_of_a_child_that_leaves_the_code_fails_it_with_its_cause_and_never_blocks_it(end: Any) -> None:
    async def flow() -> Any:
        await echo.execute("a")
        await parcel.options(key="p").execute(1)

    story = play(flow, done(1), child_failed(2, **end))
    (failed,) = commands(story, FailWorkflow)
    assert failed.cause == (2,)


def test_the_cause_of_a_group_names_children_and_activities() -> None:
    async def flow() -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(parcel.execute(1))
            group.create_task(parcel.execute(2))

    story = play(flow, child_failed(2, status="failed", failure=FAILURE))
    (failed,) = commands(story, FailWorkflow)
    assert failed.cause == (2,)
    assert [(one.ordinal, one.asks) for one in commands(story, CancelChild)] == [(1, True)]


@pytest.mark.parametrize(("policy", "asks"), [(None, True), ("cancel", True), ("terminate", True), ("abandon", False)])
def test_cancelling_the_awaiting_gives_the_child_up(policy: Any, asks: bool) -> None:
    async def flow() -> Any:
        child = parcel.options(parent_close=policy).execute(1)
        try:
            async with asyncio.timeout(5):
                await child
        except TimeoutError:
            return [child.cancelled(), durable.open_children(), await echo.execute("b")]

    story = play(flow, fire(), done(2, "b"))
    assert story.result == [True, [], "b"]
    assert [(one.ordinal, one.asks) for one in commands(story, CancelChild)] == [(1, asks)]


def test_a_request_to_cancel_is_the_workflows_own_and_no_childs_error() -> None:
    async def flow() -> Any:
        await parcel.execute(1)

    story = play(flow, cancel())
    assert story.told == ["started", "child 1 parcel", "cancel_requested", "child_cancelled 1", "cancelled"]


@pytest.mark.parametrize("seconds", [0, 3])
def test_wait_for_gives_it_up_on_every_python(seconds: int) -> None:
    async def flow() -> Any:
        child = parcel.execute(1)
        await echo.execute("a")
        try:
            await asyncio.wait_for(child, seconds)
        except TimeoutError:
            return child.cancelled()

    story = play(flow, done(2), *([fire()] if seconds else []))
    assert story.result is True
    assert len(commands(story, CancelChild)) == 1
    assert commands(story, SendSignal) == []


def test_asking_a_child_to_cancel_leaves_it_awaited() -> None:
    async def flow() -> Any:
        child = parcel.execute(1)
        await echo.execute("a")
        child.cancel()
        child.cancel(reason="too late")
        assert durable.open_children() == [child]
        try:
            await child
        except durable.ChildCancelled as error:
            return error.reason

    story = play(flow, done(2), child_failed(1, status="cancelled", reason="too late"))
    assert story.result == "too late"
    sent = commands(story, SendSignal)
    assert [(one.to, one.name, json.loads(one.payload)) for one in sent] == [
        (child_id(WORKFLOW_ID, 1, 1, EPOCH), None, ""),
        (child_id(WORKFLOW_ID, 1, 1, EPOCH), None, "too late"),
    ]


def test_gather_wait_shield_and_groups_take_children() -> None:
    async def flow() -> Any:
        children = [parcel.execute(n) for n in range(5)]
        gathered = asyncio.gather(children[0], letter.execute(9))
        shielded = asyncio.shield(children[1])
        async with asyncio.TaskGroup() as group:
            task = group.create_task(children[2])
        done, _ = await asyncio.wait(children[3:])
        return [await gathered, await shielded, task.result(), sorted(one.result() for one in done)]

    steps = [child_done(ordinal, ordinal) for ordinal in range(1, 7)]
    assert play(flow, *steps).result == [[1, 6], 2, 3, [4, 5]]


def test_of_the_last_activation_what_others_are_to_do_is_done_and_the_rest_is_listed() -> None:
    async def flow() -> str:
        parcel.execute(1)
        parcel.options(parent_close="terminate").execute(2)
        letter.options(parent_close="abandon").execute(3)
        echo.execute("a")
        durable.signal_workflow(WORKFLOW_ID, "go")
        durable.cancel_workflow(str(WORKFLOW_ID))
        return "done"

    story = play(flow)
    assert story.told == ["started", "child 1 letter", "signal_sent 2", "signal_sent 3", "completed"]
    assert story.end.data["dropped_commands"] == ["tests.parcel", "tests.parcel", "tests.echo"]


REFUSED: dict[str, tuple[Any, type[Exception]]] = {
    "payload": (lambda: parcel.execute("x"), PayloadError),  # type: ignore[arg-type]
    "arguments": (lambda: parcel.execute(1, colour="red"), ArgumentsMismatch),  # type: ignore[call-arg]
    "empty key": (lambda: parcel.options(key="").execute(1), KeyInvalid),
    "long key": (lambda: parcel.options(key="k" * 300).execute(1), KeyInvalid),
    "existing": (lambda: parcel.options(on_conflict="existing").execute(1), OptionInvalid),
    "detached policy": (lambda: parcel.options(parent_close="terminate").start(1), OptionInvalid),
    "no policy": (lambda: parcel.options(parent_close="forget").execute(1), OptionInvalid),  # type: ignore[arg-type]
    "result": (lambda: parcel.start(1).result(), InsideWorkflow),
    "status": (lambda: parcel.start(1).status(), InsideWorkflow),
    "signal name": (lambda: parcel.execute(1).signal(""), KeyInvalid),
    "signal payload": (lambda: parcel.execute(1).signal("go", object()), PayloadError),
    "long reason": (lambda: parcel.execute(1).cancel(reason="r" * 1_001), KeyInvalid),
    "empty key of another": (lambda: parcel.signal("", "go"), KeyInvalid),
    "no id": (lambda: durable.signal_workflow("nonsense", "go"), KeyInvalid),
    "a number": (lambda: durable.cancel_workflow(7), KeyInvalid),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_cannot_be_meant_is_refused_at_the_call(which: str) -> None:
    call, error = REFUSED[which]

    async def flow() -> str:
        try:
            call()
        except error as refused:
            return type(refused).__name__
        return "taken"

    assert play(flow).result == error.__name__


def test_outside_of_workflows_it_says_what_to_do_instead() -> None:
    with pytest.raises(OutsideWorkflow, match=r"parcel\.start"):
        parcel.execute(1)
    for call in (
        lambda: durable.signal_workflow(WORKFLOW_ID, "go"),
        lambda: durable.cancel_workflow(WORKFLOW_ID),
        lambda: parcel.signal("k", "go"),
        durable.open_children,
    ):
        with pytest.raises(OutsideWorkflow):
            call()
    with pytest.raises(OptionInvalid, match="parent_close"):
        parcel.options(parent_close="abandon").start(1)


def test_a_type_that_is_not_registered_here_is_refused(isolated_registry: Any) -> None:
    async def flow() -> Any:
        try:
            parcel.execute(1)
        except NotRegistered:
            return "refused"

    assert play(flow).result == "refused"


def test_other_arguments_are_no_match_in_replay() -> None:
    async def flow() -> Any:
        return await parcel.execute(1)

    async def changed() -> Any:
        return await parcel.execute(2)

    async def left_out() -> Any:
        return await echo.execute("a")

    story = play(flow, child_done(1, 1))
    with pytest.raises(NonDeterminism, match="with other arguments"):
        replayed(changed, story.history)
    with pytest.raises(NonDeterminism, match=r"the start of the child tests\.parcel"):
        replayed(left_out, story.history)


def test_an_end_that_nobody_awaits_is_no_match() -> None:
    async def flow() -> Any:
        return await parcel.execute(1)

    story = play(flow, child_done(1, 1))
    end = story.history[2]
    stranger = {**end.data, "child": str(uuid.uuid4())}
    with pytest.raises(NonDeterminism, match="the result of child"):
        replayed(flow, [*story.history[:2], Event(3, end.type, stranger, end.recorded_at, 1)])
    answer = Event(3, EventType.SIGNAL_ANSWERED, {}, end.recorded_at, 1)
    with pytest.raises(NonDeterminism, match="what became of the signal"):
        replayed(flow, [*story.history[:2], answer])


def test_open_children_are_those_that_have_not_ended() -> None:
    async def flow() -> Any:
        first, second = parcel.execute(1), parcel.execute(2)
        letter.start(3)
        assert durable.open_children() == [first, second]
        await first
        assert durable.open_children() == [second]
        (again,) = durable.open_children()
        return await again

    assert play(flow, child_done(1, 1), child_done(2, 5)).result == 5


def test_a_child_keeps_its_options_and_the_engines_own_keywords_of_start() -> None:
    async def flow() -> Any:
        parcel.options(queue="slow", priority=5, timeout=timedelta(days=1), start_at=EPOCH).execute(1)
        letter.start(2, key="k", priority=2)
        return await durable.wait_for_signal("go")

    child, started = commands(play(flow, signal("go")), StartChild)
    assert child.options == {"queue": "slow", "priority": 5, "timeout": timedelta(days=1), "start_at": EPOCH}
    assert (child.parent_close, started.parent_close) == ("cancel", "detached")
    assert (started.key, started.options) == ("k", {"priority": 2})


def test_the_parents_id_is_part_of_what_a_workflow_knows_of_itself() -> None:
    async def flow() -> Any:
        return durable.workflow_info().parent_id is None

    assert play(flow).result is True
