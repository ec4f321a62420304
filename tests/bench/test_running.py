"""Waiting for the worker that is measured."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from durable.bench import running
from durable.bench.running import Running, Stuck
from tests.waiting import PATIENCE


def _run() -> Running:
    worker: Any = SimpleNamespace(tally=None)
    return Running(worker, "default")


def test_whoever_waits_is_woken_by_the_counter_and_does_not_look_again_and_again(
    second_connection: Callable[..., Future[Any]], monkeypatch
) -> None:
    monkeypatch.setattr(running, "wait_until", None)
    run = _run()
    waiting = second_connection(run.wait_done, 2)
    run.worker.tally.done += 1
    assert not waiting.done()
    run.worker.tally.done += 1
    waiting.result(PATIENCE)
    run.wait_done(2)
    assert run.done() == 2


def test_a_count_that_does_not_come_is_told(monkeypatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.01)
    run = _run()
    with pytest.raises(Stuck, match="3 done, of which 0 came"):
        run.wait_done(3)
    run.worker.tally.done += 9
    with pytest.raises(Stuck, match="1 closed, of which 0 came"):
        run.wait_workflows(1)
