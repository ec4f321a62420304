"""Workflows that start others as children, for the flow's tests."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from datetime import timedelta
from typing import Any

import durable
from durable.decorators.workflows import workflow
from tests.flow import cases


@workflow(name="families.adds_one")
async def adds_one(n: int) -> int:
    return await cases.step.execute(n) + 1


@workflow(name="families.echo")
async def echo(n: int) -> int:
    return n


@workflow(name="families.waits")
async def waits() -> Any:
    return await durable.wait_for_signal("go")


@workflow(name="families.tidies_up")
async def tidies_up() -> str:
    try:
        await durable.wait_for_signal("go")
    finally:
        await cases.step.execute(7)
    return "unreached"


@workflow(name="families.fails")
async def fails(message: str) -> None:
    raise ValueError(message)


@workflow(name="families.limited", timeout=timedelta(seconds=30))
async def limited() -> None:
    await durable.wait_for_signal("never")


CHILDREN: dict[str, Any] = {"waits": waits, "tidies_up": tidies_up, "limited": limited}


@workflow(name="families.parent")
async def parent(n: int) -> int:
    return await adds_one.execute(n)


@workflow(name="families.many")
async def many(width: int) -> int:
    return sum(await asyncio.gather(*(echo.execute(n) for n in range(width))))


@workflow(name="families.catches")
async def catches(child: str) -> dict[str, Any]:
    """What is raised where a child is awaited, as text."""
    kinds: dict[str, Any] = {
        "fails": lambda: fails.execute("no money"),
        "waits": waits.execute,
        "limited": limited.execute,
    }
    try:
        return {"result": await kinds[child]()}
    except durable.ChildError as error:
        said = {name: getattr(error, name, None) for name in ("workflow_type", "key", "type", "message", "reason")}
        return {"error": type(error).__name__, **said}


@workflow(name="families.holds")
async def holds(child: str, parent_close: Any, then: str) -> Any:
    """Starts a child, and ends in some way when it is told, or awaits it."""
    kept = CHILDREN[child].options(parent_close=parent_close).execute()
    if then == "await":
        return await kept
    await durable.wait_for_signal("end")
    if then == "fail":
        raise ValueError("the parent's own")
    return "ended first"


@workflow(name="families.last_line")
async def last_line(parent_close: Any) -> str:
    child = waits.options(parent_close=parent_close).execute()
    return str(child.id)


@workflow(name="families.detaches")
async def detaches(n: int) -> str:
    handle = adds_one.start(n, key="detached", priority=3)
    await cases.step.execute(n)
    return str(handle.id)


@workflow(name="families.keyed")
async def keyed() -> Any:
    try:
        return await waits.options(key="taken").execute()
    except durable.KeyTaken as taken:
        return [taken.workflow_type, taken.key, str(taken.holder)]


@workflow(name="families.twins")
async def twins() -> list[str]:
    """Several children with one key, in one activation."""
    ends = await asyncio.gather(*(echo.options(key="one").execute(n) for n in range(5)), return_exceptions=True)
    return [str(end) if isinstance(end, int) else type(end).__name__ for end in ends]


@workflow(name="families.fails_by_key")
async def fails_by_key() -> Any:
    return await waits.options(key="taken").execute()


@workflow(name="families.tree")
async def tree(depth: int) -> Any:
    return await (tree.execute(depth - 1) if depth else waits.execute())


@workflow(name="families.tree_of_orders")
async def tree_of_orders(depth: int) -> Any:
    below = tree_of_orders.options(parent_close="terminate").execute(depth - 1) if depth else waits.execute()
    return await below


@workflow(name="families.gives_up")
async def gives_up(when: str, parent_close: Any) -> list[Any]:
    """Cancels the awaiting of a child: before its first step, in the activation of the call, or in a later one."""
    child = waits.options(parent_close=parent_close).execute()
    awaiting = asyncio.create_task(child)
    if when == "in":
        await asyncio.sleep(0)
    elif when == "behind":
        await durable.wait_for_signal("give up")
    awaiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await awaiting
    await durable.wait_for_signal("end")
    return [child.cancelled(), [one.type for one in durable.open_children()]]


@workflow(name="families.waits_for")
async def waits_for(seconds: float) -> str:
    """Awaits a child under a time limit, in one of asyncio's ways."""
    child = waits.execute()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(child, seconds)
    await durable.wait_for_signal("end")
    return f"{child.cancelled()}"


@workflow(name="families.shields")
async def shields(seconds: float) -> Any:
    child = waits.execute()
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(child)
    except TimeoutError:
        done, _ = await asyncio.wait([child])
        return [one.result() for one in done]
    return "in time"


@workflow(name="families.buggy")
async def buggy() -> str:
    return {"a": "there"}["b"]


@workflow(name="families.order")
async def order(child: str) -> Any:
    kinds: dict[str, Any] = {"waits": waits, "buggy": buggy, "tree_of_orders": tree_of_orders}
    args = (2,) if child == "tree_of_orders" else ()
    return await kinds[child].options(parent_close="terminate").execute(*args)


@workflow(name="families.talks")
async def talks(then: str) -> Any:
    """Signals its child, or asks it to cancel, and awaits its end."""
    child = tidies_up.execute()
    await cases.step.execute(1)
    if then == "signal":
        child.signal("go", {"n": 1})
    else:
        child.cancel(reason="too late")
    try:
        return await child
    except durable.ChildCancelled as cancelled:
        return cancelled.reason


@workflow(name="families.sends")
async def sends(to: uuid.UUID, what: str) -> str:
    try:
        if what == "cancel":
            await durable.cancel_workflow(to, reason="why not")
        elif what == "key":
            await waits.signal("order-1", "go", "by key")
        elif what == "cancel key":
            await waits.cancel("order-1")
        else:
            await durable.signal_workflow(to, "go", "by id")
    except (durable.WorkflowClosed, durable.WorkflowNotFound, durable.MailboxFull) as refused:
        return type(refused).__name__
    return "accepted"


@workflow(name="families.sends_last")
async def sends_last(to: uuid.UUID) -> None:
    durable.signal_workflow(to, "go", "the last")


@workflow(name="families.describes")
async def describes() -> list[Any]:
    info = durable.workflow_info()
    return [str(info.parent_id) if info.parent_id else None, info.key, info.type]


@workflow(name="families.tells_its_parent")
async def tells_its_parent() -> None:
    """Passes on what it knows of itself: replay compares it."""
    parent = durable.workflow_info().parent_id
    assert parent is not None
    await cases.step.execute(parent.int % 1_000)


@workflow(name="families.of_a_teller")
async def of_a_teller() -> None:
    await tells_its_parent.execute()


@workflow(name="families.asks_its_child")
async def asks_its_child() -> list[Any]:
    child = describes.options(key="mine").execute()
    before = [child is one for one in durable.open_children()]
    told = await child
    return [
        str(child.id),
        str(durable.workflow_info().id),
        child.key,
        child.type,
        before,
        durable.open_children(),
        told,
    ]


@workflow(name="families.rally")
async def rally(width: int) -> list[str]:
    """Children of every policy but one, awaited at once; each of them has a child of its own."""
    policies: list[Any] = ["cancel", "terminate"]
    below = [waits_below.options(parent_close=policies[n % 2]).execute() for n in range(width)]
    ends = await asyncio.gather(*below, return_exceptions=True)
    return [type(end).__name__ for end in ends]


@workflow(name="families.waits_below")
async def waits_below() -> Any:
    child = echo.execute(1)
    word = await durable.wait_for_signal("go")
    return [word, await child]


@workflow(name="families.fails_by_child")
async def fails_by_child() -> None:
    await fails.execute("no money")
