"""Random fan-out programs, random orders of completion: warm, cold and replayed are the same history."""

from __future__ import annotations

import asyncio
import math
import random
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import durable.kernel.context.workflow_context as durable
from durable.errors import ActivityError
from durable.kernel.history.events import EventType
from durable.kernel.replay.execution import Execution
from tests.kernel.harness import Driver, cancel, done, echo, failed, fire, other, play, signal

Program = tuple[Any, ...]

leaves = st.one_of(
    st.tuples(st.just("call"), st.integers(0, 3)),
    st.tuples(st.just("sleep"), st.sampled_from([0, 0.5, 7, 7, 3600])),
    st.tuples(st.just("signal"), st.sampled_from("ab")),
    st.tuples(st.just("random")),
    st.tuples(st.just("forget"), st.integers(0, 3)),
)
programs = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("seq"), st.lists(inner, max_size=3)),
        st.tuples(st.just("gather"), st.lists(inner, max_size=4)),
        st.tuples(st.just("group"), st.lists(inner, max_size=3)),
        st.tuples(st.just("first"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("completed"), st.lists(inner, max_size=3)),
        st.tuples(st.just("timeout"), st.sampled_from([1, 7, 100]), inner),
        st.tuples(st.just("shield"), inner),
        st.tuples(st.just("cleanup"), inner, inner),
        st.tuples(st.just("limited"), st.lists(inner, max_size=4)),
    ),
    max_leaves=12,
)


async def run(program: Program) -> Any:  # noqa: C901 - one case for each kind of step
    """Interpret a program."""
    match program:
        case ("call", value):
            return await (echo if value % 2 else other).execute(value)
        case ("sleep", seconds):
            return await durable.sleep(timedelta(seconds=seconds))
        case ("signal", name):
            return await durable.wait_for_signal(name)
        case ("random",):
            return str(durable.uuid4())
        case ("forget", value):
            return asyncio.create_task(run(("call", value))).get_name()
        case ("seq", parts):
            return [await run(part) for part in parts]
        case ("gather", parts):
            return [_plain(one) for one in await asyncio.gather(*map(run, parts), return_exceptions=True)]
        case ("group", parts):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(run(part)) for part in parts]
            return [task.result() for task in tasks]
        case ("first", parts):
            ready, pending = await asyncio.wait(
                [asyncio.create_task(run(part)) for part in parts], return_when="FIRST_COMPLETED"
            )
            for task in pending:
                task.cancel()
            return [task.get_name() for task in ready]
        case ("completed", parts):
            tasks = [asyncio.create_task(run(part)) for part in parts]
            return [await one for one in asyncio.as_completed(tasks)]
        case ("timeout", seconds, part):
            try:
                async with asyncio.timeout(seconds):
                    return await run(part)
            except TimeoutError:
                return "timeout"
        case ("shield", part):
            return await asyncio.shield(asyncio.create_task(run(part)))
        case ("cleanup", part, after):
            try:
                return await run(part)
            finally:
                await run(after)
        case ("limited", parts):
            limit = asyncio.Semaphore(2)

            async def one(part: Program) -> Any:
                async with limit:
                    return await run(part)

            return await asyncio.gather(*map(one, parts))
        case _:
            raise AssertionError(program)


def _plain(value: Any) -> Any:
    return type(value).__name__ if isinstance(value, BaseException) else value


def lived(chance: random.Random) -> Any:
    """One step: whatever can happen next, by chance, to an execution warm or cold."""

    def step(driver: Driver) -> None:
        execution: Execution = driver.execution()
        if execution.done:
            return
        choices: list[Any] = [signal(name, number) for number, name in enumerate("ab")]
        for ordinal in sorted(execution.calls.open):
            choices += [done(ordinal, ordinal)] * 3
        if execution.calls.open:
            choices.append(failed(min(execution.calls.open)))
        if execution.next_timer() is not None:
            choices += [fire()] * 2
        if chance.random() < 0.03:
            choices = [cancel("by chance")]
        chance.choice(choices)(driver)

    return step


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(program=programs, seed=st.integers(0, 2**32))
def test_warm_cold_and_replay_tell_the_same(program: Program, seed: int) -> None:
    async def flow() -> Any:
        try:
            return str(await run(program))
        except* ActivityError:
            pass
        return "failed"

    chances = iter([random.Random(seed), random.Random(seed)])
    current: list[random.Random] = []

    def begin(driver: Driver) -> None:
        current[:] = [next(chances)]

    def step(driver: Driver) -> None:
        lived(current[0])(driver)

    story = play(flow, begin, *[step] * 25)
    outcomes: dict[int, int] = {}
    for event in story.history:
        if event.type in (EventType.ACTIVITY_COMPLETED, EventType.ACTIVITY_FAILED, EventType.ACTIVITY_CANCELLED):
            assert event.ordinal is not None
            outcomes[event.ordinal] = outcomes.get(event.ordinal, 0) + 1
    assert all(count == 1 for count in outcomes.values()), "each activity has one outcome at most"
    ordinals = [event.ordinal for event in story.history if event.type is EventType.ACTIVITY_SCHEDULED]
    assert ordinals == list(range(1, len(ordinals) + 1))


@settings(max_examples=60, deadline=None)
@given(seconds=st.floats(min_value=0, max_value=1e9) | st.just(math.inf))
def test_any_span_is_slept_exactly_or_longer_by_a_millisecond_at_most(seconds: float) -> None:
    async def flow() -> None:
        await durable.sleep(seconds)

    def look(driver: Driver) -> None:
        execution = driver.execution()
        timer = execution.next_timer()
        if execution.done or math.isinf(seconds):
            assert timer is None
        else:
            assert timer is not None
            slept = (timer.due - timer.created) / timedelta(microseconds=1)
            assert -0.05 <= slept - seconds * 1e6 < 1_002

    play(flow, look, cancel() if seconds else lambda driver: None)
