"""Where calls of the client work, and the errors that they raise elsewhere."""

from __future__ import annotations

import os

from django.core.exceptions import SynchronousOnlyOperation

from durable.errors import InsideTransaction, InsideWorkflow
from durable.flow.transactions import transaction
from durable.kernel.context import workflow_context
from durable.kernel.loop.asyncio_private import get_running_loop

_ADVICE = "Make it in an activity."


def outside_workflows(call: str, advice: str = _ADVICE) -> None:
    """Raises `InsideWorkflow` in workflow code, where the call would be made again at every replay."""
    if workflow_context.in_turn():
        raise InsideWorkflow(call, advice)


def synchronous(call: str, twin: str, advice: str = _ADVICE) -> None:
    """Raises `InsideWorkflow` in workflow code, and Django's `SynchronousOnlyOperation` in other async code."""
    outside_workflows(call, advice)
    if get_running_loop() is not None and not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"):
        raise SynchronousOnlyOperation(f"{call} talks to the database, and this is async code. Use `await {twin}`.")


def outside_transactions(workflow_id: object) -> None:
    """Raises `InsideTransaction` while a transaction is open: it may hide the commits of others, or be the one they
    wait for.

    The transaction in which Django's `TestCase` wraps a test does not count.
    """
    connection = transaction.engine_connection()
    blocks = [block for block in connection.atomic_blocks if not getattr(block, "_from_testcase", False)]
    by_hand = not connection.in_atomic_block and connection.connection is not None and not connection.get_autocommit()
    if blocks or by_hand:
        raise InsideTransaction(workflow_id)
