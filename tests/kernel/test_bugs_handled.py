"""Durable calls that workflow code makes while it handles a bug: the history holds them, so the workflow fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import durable
from durable.errors import CodeRaised
from durable.kernel.definitions.definition import WorkflowDefinition
from tests.kernel.bugs import PRICES, OwnError, failure, raised
from tests.kernel.harness import Driver, Step, done, echo, fire, signal, start


class Handling:
    """Code that does something durable while it handles the bug, and raises it again afterwards."""

    @staticmethod
    async def calls_in_finally() -> None:
        try:
            PRICES["plate"]
        finally:
            await echo.execute(1)

    @staticmethod
    async def calls_in_except() -> None:
        try:
            PRICES["plate"]
        except KeyError:
            await echo.execute(1)
            raise

    @staticmethod
    async def calls_at_once() -> None:
        try:
            PRICES["plate"]
        finally:
            await asyncio.gather(echo.execute(1))

    @staticmethod
    async def calls_in_a_task() -> None:
        async def clean_up() -> None:
            await echo.execute(1)

        try:
            PRICES["plate"]
        finally:
            await asyncio.create_task(clean_up())

    @staticmethod
    async def raises_it_later() -> None:
        kept: list[Exception] = []
        try:
            PRICES["plate"]
        except KeyError as error:
            kept.append(error)
            await echo.execute(1)
        raise kept[0]

    @staticmethod
    async def calls_in_a_member_of_a_group() -> None:
        async def member() -> None:
            try:
                PRICES["plate"]
            finally:
                await echo.execute(1)

        async with asyncio.TaskGroup() as group:
            group.create_task(member())

    @staticmethod
    async def calls_for_a_group() -> None:
        try:
            raise ExceptionGroup("x", [KeyError("plate")])
        except* KeyError:
            await echo.execute(1)
            raise


@pytest.mark.parametrize(
    "code", [made.__func__ for name, made in vars(Handling).items() if isinstance(made, staticmethod)]
)
def test_calls_that_were_recorded_while_the_error_was_handled_let_it_fail(code: Any) -> None:
    """Repaired code does not raise the error, and could not repeat them."""
    assert failure(code, done(1)) in ("KeyError", "ExceptionGroup")


@pytest.mark.parametrize(
    ("wait", "ends"),
    [
        (lambda: durable.sleep(timedelta(days=1)), fire()),
        (lambda: asyncio.sleep(60), fire()),
        (lambda: durable.wait_for_signal("go"), signal("go")),
    ],
    ids=["sleep", "asyncio.sleep", "wait_for_signal"],
)
def test_waits_while_the_error_was_handled_let_it_fail(wait: Callable[[], Any], ends: Step) -> None:
    async def flow() -> None:
        try:
            PRICES["plate"]
        finally:
            await wait()

    assert failure(flow, ends) == "KeyError"


def test_calls_in_the_activation_that_is_undone_are_never_recorded_and_do_not_count() -> None:
    async def flow() -> None:
        await echo.execute(1)
        try:
            PRICES["plate"]
        finally:
            echo.execute(2)
            await asyncio.sleep(0)

    assert raised(flow, done(1)).type == "KeyError"


def test_calls_for_an_error_that_the_code_got_over_do_not_count_for_the_next() -> None:
    async def flow() -> None:
        for name in ("plate", "fork"):
            try:
                PRICES[name]
            except KeyError:
                await echo.execute(name)
        PRICES["knife"]

    assert raised(flow, done(1), done(2)).message == "'knife'"


def test_a_mark_of_another_workflow_on_a_shared_error_does_not_count() -> None:
    shared = KeyError("of a module")

    async def flow() -> None:
        await echo.execute(1)
        raise shared

    other = Driver(WorkflowDefinition(flow, name="tests.bug"), cold=False)
    try:
        vars(shared)["_durable_handled"] = ("another", 1)
        start()(other)
        with pytest.raises(CodeRaised):
            done(1)(other)
    finally:
        other.close()


def test_an_error_whose_class_refuses_attributes_is_judged_all_the_same() -> None:
    class Stubborn(KeyError):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            raise OwnError(name)

    async def flow() -> None:
        try:
            raise Stubborn("x")
        finally:
            await echo.execute(1)

    assert failure(flow, done(1)).endswith("Stubborn")
