"""A bug in workflow code blocks the workflow and does not end it: its activation is undone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.core.exceptions import ObjectDoesNotExist, SynchronousOnlyOperation

import durable
from durable.decorators.workflows import workflow
from durable.errors import CodeRaised, ConfigurationError, NonDeterminism
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.history.events import Event, EventType
from tests.kernel.bugs import PRICES, OwnError, failure, raised
from tests.kernel.harness import EPOCH, Driver, cancel, done, echo, play, replayed, start


class OwnLookupError(KeyError):
    """One that derives from an error that counts as a bug."""


class Deceiver(Exception):
    """Claims to be something else."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return KeyError


async def plain() -> None:
    """Code to define workflows of."""


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("x"), UnboundLocalError("x"), TypeError("x"), KeyError("x"), IndexError("x"), ImportError("x"),
        AssertionError("x"), NotImplementedError("x"), SynchronousOnlyOperation("x"), durable.UsageError("x"),
        durable.OptionInvalid("priority", 1, "2"), durable.NotRegistered("activity", "x"), OwnLookupError("x"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_error_of_code_blocks(error: Exception) -> None:
    async def flow() -> None:
        await echo.execute(1)
        raise error

    blocked = raised(flow, done(1))
    assert blocked.error is error
    assert blocked.type.endswith(type(error).__name__)
    assert type(error).__name__ in blocked.reason
    assert "in flow" in blocked.data["traceback"]


@pytest.mark.parametrize(
    "error",
    [
        OwnError("x"), ValueError("x"), ArithmeticError("x"), RuntimeError("x"), OSError("x"), ObjectDoesNotExist("x"),
        durable.WorkflowNotFound("x"), durable.KeyInvalid("key", "x", "y"), durable.WorkflowClosed("x", "failed", "y"),
        durable.ActivityError(activity="x", ordinal=1, type="KeyError", message="y"), asyncio.CancelledError(),
        SystemExit(1), Deceiver("x"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_any_other_error_fails_the_workflow(error: BaseException) -> None:
    """`WorkflowNotFound` is a `LookupError`, too, and says nothing about the code."""

    async def flow() -> None:
        await echo.execute(1)
        raise error

    assert failure(flow, done(1)).endswith(type(error).__name__)


def test_the_error_that_leaves_the_function_is_judged_and_not_what_it_came_from() -> None:
    async def wraps_a_bug() -> None:
        try:
            PRICES["plate"]
        except KeyError as error:
            raise OwnError("no price") from error

    async def trips_over_an_outcome() -> None:
        try:
            raise OwnError("sold out")
        except OwnError:
            PRICES["plate"]

    assert failure(wraps_a_bug).endswith("OwnError")
    assert raised(trips_over_an_outcome).type == "KeyError"


def test_of_a_large_group_every_leaf_is_judged() -> None:
    async def flow() -> None:
        raise ExceptionGroup("x", [KeyError("x"), *(ValueError(number) for number in range(3_000))])

    assert raised(flow).type == "ExceptionGroup"


def test_what_code_may_raise_without_ending_is_not_judged() -> None:
    """A task whose error nobody sees, and a bug that the code gets over."""

    async def flow() -> Any:
        async def task() -> None:
            PRICES["plate"]

        durable.logger.debug("%s", asyncio.create_task(task()))
        try:
            PRICES["plate"]
        except KeyError:
            return await echo.execute(7)
        return 0

    assert play(flow, done(1, 7)).result == 7


def test_of_a_group_any_error_in_it_is_judged() -> None:
    async def flow() -> None:
        async def buggy() -> None:
            await echo.execute(1)
            PRICES["plate"]

        async def refused() -> None:
            await echo.execute(2)
            raise OwnError("x")

        async with asyncio.TaskGroup() as outer:
            async with asyncio.TaskGroup() as inner:
                inner.create_task(buggy())
            outer.create_task(refused())

    blocked = raised(flow, done(1))
    assert blocked.type == "ExceptionGroup"
    assert "KeyError" in blocked.traceback


def test_a_group_of_other_errors_fails_the_workflow() -> None:
    async def flow() -> None:
        raise ExceptionGroup("x", [OwnError("y"), ExceptionGroup("z", [ValueError("v")])])

    assert failure(flow) == "ExceptionGroup"


def test_a_bug_while_a_cancellation_is_handled_blocks_and_the_request_stays_unread() -> None:
    async def flow() -> None:
        try:
            await echo.execute(1)
        except asyncio.CancelledError:
            PRICES["plate"]

    assert raised(flow, cancel()).type == "KeyError"


def test_a_bug_after_a_clean_up_that_was_cancelled_blocks() -> None:
    """The calls were made while the cancellation was handled, not the error: repaired code makes them, too."""

    async def flow() -> None:
        try:
            await echo.execute(1)
        except asyncio.CancelledError:
            await echo.execute(2)
            PRICES["plate"]

    assert raised(flow, cancel(), done(2)).type == "KeyError"


@pytest.mark.parametrize("error", [KeyError("x"), ExceptionGroup("x", [KeyError("y")])], ids=["one", "group"])
def test_without_kinds_every_error_fails_the_workflow(error: Exception) -> None:
    async def flow() -> None:
        raise error

    assert failure(flow, blocks_on=()) == type(error).__name__


@pytest.mark.parametrize(
    "error", [OwnError("x"), ValueError("x"), durable.WorkflowNotFound("x"), ExceptionGroup("x", [OwnError("y")])]
)
def test_with_exception_every_error_blocks(error: Exception) -> None:
    async def flow() -> None:
        raise error

    assert raised(flow, blocks_on=(Exception,)).error is error


def test_with_exception_a_workflow_can_still_be_cancelled_and_exit() -> None:
    async def flow() -> None:
        await echo.execute(1)

    async def leaves() -> None:
        raise SystemExit(3)

    blocking = WorkflowDefinition(flow, name="tests.bug", blocks_on=(BaseException,))
    assert play(blocking, cancel()).end.type is EventType.WORKFLOW_CANCELLED
    assert failure(leaves, blocks_on=(Exception,)) == "SystemExit"


def test_a_result_that_cannot_be_written_fails_the_workflow() -> None:
    """It left the function well: no error of the code's was raised in it."""

    async def flow() -> Any:
        return float("nan")

    assert failure(flow, blocks_on=(Exception,)) == "durable.errors.PayloadError"


def test_a_recorded_failure_fits_code_that_raises_a_bug_on_replay() -> None:
    """Histories of releases in which a bug ended a workflow."""

    async def flow() -> None:
        await echo.execute(1)
        PRICES["plate"]

    history = play(WorkflowDefinition(flow, name="tests.bug", blocks_on=()), done(1)).history
    execution = replayed(flow, history)
    assert (execution.done, execution.drift) == (True, 0)
    execution.close()


def test_a_bug_where_the_history_goes_on_is_told_as_the_bug() -> None:
    """Not as non-determinism, which would name the call that the code did not come to, and not why."""

    async def sound() -> None:
        await echo.execute(1)

    async def broken() -> None:
        PRICES["plate"]
        await echo.execute(1)

    history = play(sound, done(1)).history[:2]
    with pytest.raises(CodeRaised, match="KeyError"):
        replayed(broken, history)


def test_repaired_code_goes_on_where_the_bug_was() -> None:
    repaired = False

    async def flow() -> str:
        await echo.execute("paid")
        if not repaired:
            PRICES["plate"]
        await echo.execute("sent")
        return "done"

    driver = Driver(WorkflowDefinition(flow, name="tests.bug"), cold=True)
    try:
        start()(driver)
        with pytest.raises(CodeRaised):
            done(1)(driver)
        driver.note(EventType.WORKFLOW_BLOCKED)
        repaired = True
        done(1)(driver)
        done(2)(driver)
    finally:
        driver.close()
    assert driver.history[-1].type is EventType.WORKFLOW_COMPLETED


def test_log_lines_of_an_undone_activation_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async def flow() -> None:
        durable.logger.warning("about to fall")
        PRICES["plate"]

    raised(flow)
    assert "about to fall" not in caplog.text


def test_leftover_records_are_non_determinism_as_before() -> None:
    async def flow() -> None:
        raise OwnError("x")

    scheduled = Event(2, EventType.ACTIVITY_SCHEDULED, {"activity": "tests.echo", "digest": ""}, EPOCH, 1)
    with pytest.raises(NonDeterminism):
        replayed(flow, [Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH), scheduled])


@pytest.mark.parametrize("kinds", [KeyError, [KeyError], ("KeyError",), (int,), None, (KeyError("x"),)])
def test_other_values_than_a_tuple_of_exception_classes_are_refused(kinds: Any, isolated_registry: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"blocks_on=.* is not allowed: it is a tuple of exception classes"):
        workflow(name="tests.refused", blocks_on=kinds)(plain)


def test_the_default_is_the_public_tuple() -> None:
    assert WorkflowDefinition(plain, name="tests.plain").blocks_on is durable.CODE_ERRORS
