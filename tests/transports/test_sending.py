"""Calls of a transport on a thread of its own: what hangs is left alone, and what fails says so."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest

from durable.worker.loops import sending
from durable.worker.loops.sending import CallHangs, Sender
from tests.transports.doubles import Recorded
from tests.waiting import Gate


def test_calls_are_made_again_once_one_that_hung_comes_back(recorded: type[Recorded], gate: Gate) -> None:
    Recorded.hangs_at = gate
    sender = Sender("reports", lambda: Recorded("default"), call_for=0.05)
    for n in range(sending.MOST_HANGING):
        with pytest.raises(CallHangs, match="longer than"):
            sender.send(n, uuid.uuid4())
    with pytest.raises(CallHangs, match="have not come back"):
        sender.ping()
    # The calls that hang: their end is waited for.
    hung = list(sender._hanging)
    gate.open()
    for call in hung:
        call.result(30)
    sender.ping()
    sender.end()
    assert Recorded.pings == ["default"]


def test_what_a_transport_raises_reaches_the_caller_and_costs_neither_thread_nor_transport() -> None:
    """An error of its own that is a TimeoutError, too: the call has come back."""

    class Failing:
        made = 0

        def __init__(self) -> None:
            Failing.made += 1

        def ping(self) -> None:
            raise TimeoutError(threading.current_thread().name)

        def send(self, row_id: int, token: uuid.UUID) -> None:
            raise SystemExit(3)

    sender = Sender("reports", Failing)
    for _ in range(2):
        with pytest.raises(TimeoutError, match="durable-send-reports"):
            sender.ping()
        with pytest.raises(SystemExit):
            sender.send(1, uuid.uuid4())
    sender.end()
    assert Failing.made == 1


def test_a_transport_that_can_not_be_made_is_made_anew_at_the_next_call() -> None:
    made: list[Any] = []

    def make() -> Recorded:
        made.append(1)
        if len(made) == 1:
            raise ConnectionError("no broker yet")
        return Recorded("default")

    Recorded.reset()
    sender = Sender("reports", make)
    with pytest.raises(ConnectionError):
        sender.ping()
    sender.ping()
    sender.end()
    assert (len(made), Recorded.pings) == (2, ["default"])
