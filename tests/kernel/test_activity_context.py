"""What a running activity can know and say."""

from __future__ import annotations

import contextvars
import threading
import uuid
from decimal import Decimal
from typing import Any

import pytest

import durable
from durable.errors import OutsideActivity, PayloadError
from durable.kernel.codec import JsonCodec
from durable.kernel.context import activity_context
from durable.kernel.context.activity_context import ActivityInfo


def info(**changes: Any) -> ActivityInfo:
    values: dict[str, Any] = {
        "workflow_id": uuid.UUID(int=1),
        "ordinal": 3,
        "attempt": 2,
        "delivery": 4,
        "idempotency_key": f"{uuid.UUID(int=1)}:1:3",
        "codec": JsonCodec(),
        "cancel_requested": lambda: False,
        "beat": lambda stored: None,
    }
    return ActivityInfo(**(values | changes))


def test_outside_an_activity_the_call_is_refused_by_name():
    with pytest.raises(OutsideActivity, match=r"durable\.activity_info\(\) works only inside a running activity"):
        durable.activity_info()


def test_inside_it_is_the_attempt_that_runs_here():
    running = info()

    def handler() -> None:
        activity_context.current.set(running)
        seen = durable.activity_info()
        assert seen is running
        assert (seen.ordinal, seen.attempt, seen.delivery) == (3, 2, 4)
        assert seen.idempotency_key.endswith(":1:3")

    contextvars.copy_context().run(handler)
    with pytest.raises(OutsideActivity):
        durable.activity_info()


def test_a_thread_of_the_handlers_own_is_outside():
    errors: list[Exception] = []

    def inner() -> None:
        try:
            durable.activity_info()
        except OutsideActivity as error:
            errors.append(error)

    def handler() -> None:
        activity_context.current.set(info())
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()

    contextvars.copy_context().run(handler)
    assert len(errors) == 1


def test_a_heartbeat_is_encoded_at_once_and_is_the_last_one():
    beats: list[str] = []
    running = info(beat=beats.append, last_heartbeat='{"page":1}')
    assert running.last_heartbeat == {"page": 1}
    running.heartbeat({"page": 2})
    running.heartbeat()
    assert beats == ['{"page":2}', "null"]
    assert running.last_heartbeat is None
    assert info().last_heartbeat is None


def test_details_that_can_not_be_carried_are_refused_at_the_call_and_change_nothing():
    """Faults P3."""
    running = info(last_heartbeat="1")
    with pytest.raises(PayloadError, match=r"details\.left: .*Decimal"):
        running.heartbeat({"left": Decimal(1)})
    assert running.last_heartbeat == 1


def test_a_request_to_stop_is_seen_when_it_comes():
    asked = threading.Event()
    running = info(cancel_requested=asked.is_set)
    assert not running.cancelled
    asked.set()
    assert running.cancelled
