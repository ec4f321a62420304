"""Calls in workflow code that a replay can not repeat are seen while it replays, whatever name they go by."""

from __future__ import annotations

import datetime as dt
import inspect
import logging
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from random import choice
from time import sleep as rest
from time import time as seconds
from typing import Any

import pytest
from django.utils import timezone

import durable
from durable import checks, testing
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.definitions.registry import registry

HISTORY: dict[str, Any] = {
    "format": 1,
    "workflow_id": "01990000-0000-7000-8000-00000000002a",
    "type": "watched",
    "status": "completed",
    "run": 1,
    "events": [
        {
            "seq": 1,
            "type": "workflow_started",
            "at": "2030-01-01T12:00:00+00:00",
            "data": {"type": "watched", "input": "{}", "python": "3.11"},
        },
        {"seq": 2, "type": "workflow_completed", "at": "2030-01-01T12:00:00+00:00", "data": {"result": "null"}},
    ],
}
HERE = __file__


def replayed(call: Callable[[], object]) -> testing.Replayed:
    """Replay a workflow that makes a call, and ends."""

    async def watched() -> None:
        call()

    return testing.replay_here(HISTORY, WorkflowDefinition(watched, name="watched"))


IMPURE: list[tuple[str, Callable[[], object]]] = [
    ("time.time", lambda: time.time()),
    ("time.time", lambda: seconds()),
    ("time.monotonic", lambda: time.monotonic()),
    ("time.sleep", lambda: rest(3600)),
    ("datetime.datetime.now", lambda: datetime.now(dt.UTC)),
    ("datetime.datetime.utcnow", lambda: datetime.utcnow()),  # noqa: DTZ003
    ("datetime.date.today", lambda: dt.date.today()),  # noqa: DTZ011
    ("datetime.datetime.now", lambda: timezone.now()),
    ("random.random", lambda: random.random()),
    ("random.choice", lambda: choice([1, 2])),
    ("random.shuffle", lambda: random.shuffle([1, 2])),
    ("random.Random", lambda: random.Random().random()),
    ("os.urandom", lambda: os.urandom(8)),
    ("os.urandom", lambda: secrets.token_hex()),
    ("uuid.uuid4", lambda: uuid.uuid4()),
    ("open", lambda: open(HERE)),  # noqa: PTH123, SIM115
    ("open", lambda: Path(HERE).read_text()),
    ("os.stat", lambda: Path(HERE).exists()),
    ("socket.socket", lambda: socket.socket()),
    ("socket.create_connection", lambda: socket.create_connection(("127.0.0.1", 9))),
    ("socket.getaddrinfo", lambda: socket.getaddrinfo("localhost", 80)),
    ("threading.Thread.start", lambda: threading.Thread(target=print).start()),
    ("subprocess.Popen", lambda: subprocess.run([sys.executable], check=False)),
]


@pytest.mark.parametrize(("name", "call"), IMPURE, ids=[f"{name} {at}" for at, (name, _) in enumerate(IMPURE)])
def test_a_call_that_no_replay_can_repeat_is_named_with_its_line(name: str, call: Callable[[], object]) -> None:
    """Faults R4."""
    with pytest.raises(testing.Impure) as caught:
        replayed(call)
    error = caught.value
    assert (error.call, error.file) == (name, HERE)
    assert error.line == inspect.getsourcelines(call)[1]
    assert error.advice


@pytest.mark.parametrize(
    "call",
    [
        durable.now,
        durable.uuid4,
        durable.random,
        partial(random.Random, 7),
        lambda: random.Random(7).choice([1, 2]),
        lambda: uuid.UUID(int=7),
        lambda: datetime(2030, 1, 1, tzinfo=dt.UTC).isoformat(),
        lambda: durable.logger.warning("silent"),
        lambda: logging.getLogger("tests").warning("loud"),
        lambda: time.strftime("%Y", time.struct_time((2030, 1, 1, 0, 0, 0, 1, 1, 0))),
    ],
    ids=range(10),
)
def test_what_replays_or_only_tells_is_let_pass(call: Callable[[], object]) -> None:
    """Faults R4: the context offers now, uuid and random that replay."""
    assert replayed(call).events == 2


def test_code_that_swallows_the_error_is_found_all_the_same() -> None:
    def call() -> None:
        with suppress(BaseException):
            time.time()

    with pytest.raises(testing.Impure, match=r"call calls time\.time\(...\) in line"):
        replayed(call)


def test_a_deep_caller_is_watched_too() -> None:
    """Its replay runs in a thread of its own."""

    def deep(frames: int) -> object:
        return deep(frames - 1) if frames else replayed(time.time)

    with pytest.raises(testing.Impure, match=r"time\.time"):
        deep(200)


def test_the_watch_ends_with_the_replay() -> None:
    before = sys.getprofile()
    replayed(durable.now)
    with pytest.raises(testing.Impure):
        replayed(uuid.uuid4)
    assert sys.getprofile() is before
    assert time.time() > 0


def test_the_system_check_reads_the_same_from_the_text() -> None:
    """Faults R4: a check flags them in registered workflows."""
    with registry.isolated():

        @durable.workflow(name="clocked")
        async def clocked() -> float:
            return time.time()

        (warning,) = checks.check_registered(None)
    assert warning.id == "durable.W005"
    assert "time.time" in warning.msg
    assert "durable.now()" in str(warning.hint)
