"""How the golden histories come about: each story starts a workflow, carries it on, and answers its handle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from durable import testing
from durable.client.handle import Handle
from durable.errors import ResultError
from durable.operations import terminate
from tests.golden import workflows
from tests.golden.workflows import Order, Size

BEGIN = datetime(2027, 1, 1, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
ORDER = Order(42, Decimal("19.90"), date(2027, 1, 1), (Size.SMALL, Size.LARGE))
ORDER_DATA = {"number": 7, "total": "1.00", "placed_on": "2027-01-01", "sizes": ["small"]}

Story = Callable[[], Handle[Any]]


def sequence() -> Handle[Any]:
    handle = workflows.sequence.start(ORDER)
    with testing.failing(workflows.pay):
        testing.run(handle)
    return handle


def fan_out() -> Handle[Any]:
    handle = workflows.fan_out.start(6)
    testing.run(handle, slots=4)
    return handle


def timers() -> Handle[Any]:
    handle = workflows.timers.start()
    testing.run(handle)
    return handle


def signals() -> Handle[Any]:
    handle = workflows.signals.start()
    early = [(timedelta(), "early", 1), (MINUTE, "early", {"second": [True, None]})]
    testing.run(handle, signals=[*early, (HOUR + MINUTE, "order", ORDER_DATA), (HOUR + MINUTE, "unread")])
    return handle


def cancelled() -> Handle[Any]:
    handle = workflows.cancelled.start()
    with testing.failing(workflows.pack, times=100), suppress(ResultError):
        testing.run(handle, steps=[(timedelta(seconds=5), _cancel)])
    return handle


def _cancel(handle: Handle[Any]) -> None:
    handle.cancel(reason="not wanted any more")


def failing() -> Handle[Any]:
    handle = workflows.failing.start()
    with suppress(ResultError):
        testing.run(handle)
    return handle


def over_time() -> Handle[Any]:
    handle = workflows.over_time.start()
    with suppress(ResultError):
        testing.run(handle)
    return handle


def still_open() -> Handle[Any]:
    handle = workflows.still_open.start()
    testing.drain()
    return handle


def terminated() -> Handle[Any]:
    handle = still_open()
    terminate(handle.id, reason="by hand", actor=None)
    return handle


def family() -> Handle[Any]:
    handle = workflows.family.start()
    testing.run(handle)
    return handle


def parcel() -> Handle[Any]:
    handle = workflows.parcel.start(1)
    testing.run(handle, signals=[(MINUTE, "go", "alone")])
    return handle


def patched() -> Handle[Any]:
    handle = workflows.patched.start()
    testing.run(handle, signals=[(MINUTE, "size", 7)])
    return handle


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        sequence,
        fan_out,
        timers,
        signals,
        cancelled,
        failing,
        over_time,
        still_open,
        terminated,
        family,
        parcel,
        patched,
    )
}
