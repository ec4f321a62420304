"""Tasks for tests. What they do to the outside is in `seen`."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from asgiref.sync import sync_to_async

from tests.ledger.models import Entry
from tests.tasks.interface import task
from tests.waiting import Gate

seen: list[Any] = []
doors: dict[str, Gate] = {}


@task
def note(*args: Any, **kwargs: Any) -> None:
    seen.append((args, kwargs))


@task()
async def note_async(*args: Any, **kwargs: Any) -> None:
    await asyncio.sleep(0)
    seen.append((args, kwargs))


@task
def answer() -> int:
    return 42


@task
async def answer_async(number: int) -> dict[str, int]:
    return {"number": number, "rows": await Entry.objects.acount()}


@task
def fail(text: str = "no such street") -> None:
    seen.append("fail")
    raise ValueError(text)


@task
def fail_inside() -> None:
    raise ValueError(ValueError("inside"))


@task
async def fail_async() -> None:
    raise LookupError("not there")


@task
def fail_in_a_class_of_its_own() -> None:
    raise Lost("gone")


class Lost(Exception):
    pass


@task
def leave() -> None:
    sys.exit(3)


@task
def interrupt() -> None:
    raise KeyboardInterrupt("Ctrl-C")


@task
def unwritable() -> Any:
    return lambda: True


@task
def in_tuples() -> Any:
    return {"pair": (1, 2), "text": b"abc"}


@task
def sum_of_two(first: int, second: int) -> int:
    return first + second


@task(takes_context=True)
def own_id(context: Any) -> Any:
    return context.task_result.id


@task(takes_context=True)
def story(context: Any, word: str, *, more: int = 0) -> dict[str, Any]:
    result = context.task_result
    told = {
        "attempt": context.attempt,
        "status": result.status.value,
        "workers": result.worker_ids,
        "errors": [error.exception_class_path for error in result.errors],
        "args": result.args,
        "kwargs": result.kwargs,
        "priority": result.task.priority,
        "queue": result.task.queue_name,
        "backend": result.backend,
        "times": [result.enqueued_at is not None, result.started_at is not None, result.finished_at is not None],
        "word": word,
        "more": more,
    }
    seen.append(told)
    return told


@task(takes_context=True)
async def story_async(context: Any) -> list[Any]:
    rows = await sync_to_async(Entry.objects.count)()
    return [context.attempt, context.task_result.status.value, rows]


@task(takes_context=True)
def second_time(context: Any) -> list[Any]:
    if context.attempt == 1:
        raise OSError("not yet")
    return [context.attempt, [error.exception_class_path for error in context.task_result.errors]]


@task
def wait_at(door: str) -> str:
    doors[door].pass_through()
    return "through"


@task
def order(word: str) -> None:
    seen.append(word)


@task
def write_entry(word: str) -> None:
    Entry.objects.create(label=word)


@task
def thread() -> None:
    seen.append(threading.get_ident())
