"""Workflows and activities that the client's tests start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import durable
from durable import Retry, activity, workflow


@dataclass(frozen=True)
class Receipt:
    """A result that needs its annotation to come back."""

    number: str
    amount: Decimal


@activity(name="client.charge", retry=Retry(max_attempts=3), queue="money")
def charge(order_id: int, amount: Decimal = Decimal(1)) -> Receipt:
    return Receipt(f"r{order_id}", amount)


@activity(name="client.careful", on_exhausted="hold")
def careful() -> None:
    return None


@activity(name="client.greet")
async def greet(name: str) -> str:
    return f"hello {name}"


@workflow(name="client.checkout", queue="orders", timeout=timedelta(days=2))
async def checkout(order_id: int, note: str = "") -> Receipt:
    return Receipt(f"o{order_id}", Decimal(order_id))


@workflow(name="client.fails")
async def fails() -> None:
    raise ValueError("no such order")


@workflow(name="client.waits")
async def waits() -> str:
    return str(await durable.wait_for_signal("go"))


@workflow(name="client.keyed")
async def keyed(key: str, priority: int = 0) -> str:
    return f"{key} {priority}"


@workflow(name="client.knows_itself")
async def knows_itself() -> list[str | int | None]:
    info = durable.workflow_info()
    await greet.execute(f"{info.key}")
    return [str(info.id), info.key, info.type, info.run]


@workflow(name="client.calls_another")
async def calls_another() -> str:
    try:
        checkout(1)
    except durable.UsageError as error:
        return f"{type(error).__name__}: {error}"
