"""The failure of a workflow names the activities that led to it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from durable.errors import ActivityError
from durable.kernel.replay import causes
from tests.kernel.harness import Story, done, echo, failed, other, play


def cause_of(story: Story) -> list[int]:
    assert story.told[-1] == "failed", story.told
    recorded: list[int] = story.end.data["cause"]
    return recorded


def error(ordinal: Any) -> ActivityError:
    return ActivityError(activity="tests.echo", ordinal=ordinal, type="E", message="no")


async def as_it_is() -> None:
    await other.execute(1)
    await echo.execute(2)


async def from_it() -> None:
    await other.execute(1)
    try:
        await echo.execute(2)
    except ActivityError as refused:
        raise ValueError("refused") from refused


async def while_it_was_handled() -> None:
    await other.execute(1)
    try:
        await echo.execute(2)
    except ActivityError:
        raise ValueError("refused")  # noqa: B904 - the case


async def from_nothing() -> None:
    await other.execute(1)
    try:
        await echo.execute(2)
    except ActivityError:
        raise ValueError("refused") from None


@pytest.mark.parametrize("code", [as_it_is, from_it, while_it_was_handled, from_nothing], ids=lambda it: it.__name__)
def test_the_failed_activity_is_the_cause_however_its_error_was_passed_on(code: Any) -> None:
    assert cause_of(play(code, done(1), failed(2))) == [2]


def test_every_failed_activity_of_a_group_is_a_cause_and_those_that_did_not_fail_are_none() -> None:
    async def flow() -> None:
        outcomes: list[Any] = await asyncio.gather(*(echo.execute(n) for n in range(4)), return_exceptions=True)
        inner = ExceptionGroup("inner", [it for it in outcomes[:2] if isinstance(it, Exception)])
        raise ExceptionGroup("several", [ValueError("of its own"), inner, outcomes[3]])

    assert cause_of(play(flow, failed(4), failed(1), done(2), failed(3))) == [1, 4]


def test_a_clean_up_that_fails_too_is_a_cause_beside_what_it_cleaned_up_after() -> None:
    async def flow() -> None:
        try:
            await echo.execute(1)
        except ActivityError:
            await other.execute(2)

    assert cause_of(play(flow, failed(1), failed(2))) == [1, 2]


def test_an_error_that_no_activity_led_to_has_no_cause() -> None:
    async def flow() -> None:
        with contextlib.suppress(ActivityError):
            await echo.execute(1)
        raise ValueError("of its own")

    assert cause_of(play(flow, failed(1))) == []


def test_chains_that_lead_back_to_themselves_end() -> None:
    first, second = error(1), ValueError("second")
    first.__cause__, second.__context__ = second, first
    second.__cause__ = second
    group = ExceptionGroup("group", [second])
    first.__context__ = group
    assert causes.ordinals(group, last_ordinal=9) == (1,)


def test_a_chain_of_a_hundred_thousand_errors_needs_no_recursion() -> None:
    last: BaseException = error(1)
    for _ in range(100_000):
        link = ValueError()
        link.__cause__ = last
        last = link
    assert causes.ordinals(last, last_ordinal=1) == (1,)


def test_numbers_that_are_of_no_activity_of_the_run_are_left_out() -> None:
    """Anybody may make such an error."""
    made = [error(n) for n in (-1, 0, 3, 10, True, "2", None)]
    assert causes.ordinals(ExceptionGroup("made", made), last_ordinal=9) == (3,)


def test_no_code_of_the_error_runs() -> None:
    class Hostile(ActivityError):
        def __getattribute__(self, name: str) -> Any:
            raise SystemExit(name)

    hostile = Hostile.__new__(Hostile)
    BaseException.__dict__["__dict__"].__get__(hostile)["ordinal"] = 2
    assert causes.ordinals(hostile, last_ordinal=9) == (2,)
