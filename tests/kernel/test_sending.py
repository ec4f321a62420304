"""Signals and requests to cancel that workflow code sends to others."""

from __future__ import annotations

import asyncio
from typing import Any

import durable
from durable.decorators.workflows import workflow
from durable.errors import InsideWorkflow, UsageError
from durable.kernel.history.commands import SendSignal
from tests.kernel.harness import WORKFLOW_ID, answered, commands, done, echo, play


@workflow(name="tests.addressee")
async def parcel(n: int) -> int:
    return n


def test_what_was_sent_is_answered_only_where_it_is_awaited() -> None:
    async def flow() -> Any:
        durable.signal_workflow(WORKFLOW_ID, "forgotten")
        await durable.signal_workflow(WORKFLOW_ID, "awaited", {"n": 1})
        together = asyncio.gather(parcel.signal("p-1", "by key"), parcel.cancel("p-1"), return_exceptions=True)
        return [type(error).__name__ for error in await together]

    story = play(flow, answered(2), answered(3, refused="closed", status="failed"), answered(4, refused="not_found"))
    assert story.result == ["WorkflowClosed", "WorkflowNotFound"]
    sent = [(one.ordinal, one.to, one.type, one.key, one.name, one.awaited) for one in commands(story, SendSignal)]
    assert sent == [
        (1, WORKFLOW_ID, "", "", "forgotten", False),
        (2, WORKFLOW_ID, "", "", "awaited", True),
        (3, None, "tests.addressee", "p-1", "by key", True),
        (4, None, "tests.addressee", "p-1", None, True),
    ]


def test_awaiting_it_later_is_refused_since_nobody_was_asked_to_answer() -> None:
    async def flow(how: str) -> Any:
        sent = durable.signal_workflow(WORKFLOW_ID, "go")
        await echo.execute("a")
        try:
            await (sent if how == "await" else asyncio.gather(sent))
        except UsageError as error:
            return str(error)

    for how in ("await", "gather"):
        assert "await it where it is sent" in play(flow, done(2), how=how).result


def test_a_sending_that_is_withdrawn_in_its_activation_leaves_no_trace() -> None:
    async def flow() -> Any:
        task = asyncio.create_task(durable.signal_workflow(WORKFLOW_ID, "go"))
        task.cancel()
        await asyncio.sleep(0)
        return await echo.execute("a")

    assert play(flow, done(1, "x")).told == ["started", "scheduled 1 echo", "completed 1", "completed"]


def test_the_handle_of_a_started_child_says_what_workflow_code_uses_instead() -> None:
    async def flow() -> list[str]:
        handle, said = parcel.start(1), []
        for call in (handle.result, handle.status, lambda: handle.signal("go"), handle.cancel):
            try:
                call()
            except InsideWorkflow as refused:
                said.append(str(refused))
        return said

    result, status, signalled, cancelled = play(flow).result
    assert "`.execute(...)`" in result
    assert "`.execute(...)`" in status
    assert "durable.signal_workflow" in signalled
    assert "durable.cancel_workflow" in cancelled
