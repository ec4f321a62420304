"""Workflows and activities that say a secret wherever user code can say something."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import durable
from durable import Retry, activity, workflow

CANARY = "canary-078-05-1120"
ONCE = Retry(max_attempts=1)
PAUSE = timedelta(seconds=5)

altered = False
"""Whether today's code of `changing` is another than it was."""


class CanaryError(Exception):
    """An error that quotes what it was called with."""


@dataclass
class Card:
    """What arguments and signals carry."""

    number: str

    def __post_init__(self) -> None:
        if not isinstance(self.number, str):
            raise TypeError(f"{CANARY} is not {self.number}")


@activity(name="canary.charge", retry=Retry(max_attempts=2, first=PAUSE))
def charge(card: str) -> str:
    info = durable.activity_info()
    info.heartbeat({"card": card})
    if info.attempt == 1:
        raise CanaryError(f"the bank refused {card}\nin two lines: {card}")
    return card


@activity(name="canary.refuse", retry=ONCE)
def refuse(card: str) -> str:
    try:
        raise LookupError(card)
    except LookupError as error:
        raise CanaryError(f"no {card}") from error


@activity(name="canary.hold", retry=ONCE, on_exhausted="hold")
async def hold(card: str) -> str:
    raise CanaryError(card)


@activity(name="canary.take")
def take(card: int) -> None:
    """Cannot read what it is called with once `altered`."""


@workflow(name="canary.pay")
async def pay(card: str) -> str:
    """Everything that goes well, and a task that nobody looks at."""
    await charge.execute(card)
    sent = await durable.wait_for_signal("card", as_type=Card)
    forgotten = asyncio.create_task(_fall(card))
    await asyncio.sleep(0)
    del forgotten
    return sent.number


async def _fall(card: str) -> None:
    raise CanaryError(f"nobody looks at {card}")


@workflow(name="canary.fails")
async def fails(card: str) -> None:
    """Fails by its own code."""
    await durable.sleep(PAUSE)
    raise CanaryError(f"the code is against {card}")


@workflow(name="canary.fails_by_activity")
async def fails_by_activity(card: str) -> None:
    """Fails by its activity's failure."""
    await refuse.execute(card)


@workflow(name="canary.held")
async def held(card: str) -> None:
    """Waits for a dead letter."""
    await hold.execute(card)


@workflow(name="canary.unreadable")
async def unreadable(card: str) -> None:
    """A signal that does not fit."""
    await durable.wait_for_signal("count", as_type=int)


@workflow(name="canary.unreadable_key")
async def unreadable_key(card: str) -> None:
    """A signal that does not fit behind a key that its sender chose."""
    await durable.wait_for_signal("sums", as_type=dict[str, dict[str, int]])


@workflow(name="canary.changing")
async def changing(card: str) -> None:
    """Its code is another in the second turn, and fails where it has waited."""
    if altered:
        raise CanaryError(f"today's code is against {card}")
    await durable.wait_for_signal("card")
