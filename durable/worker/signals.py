"""SIGTERM and SIGINT: the first asks for a stop in good order, a later second one ends the process now."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
TOGETHER = 0.5
"""Seconds after the first signal in which others are the same one: `timeout`, shells and process managers signal a
process and then its group, and handlers must not be cut off by that."""


class StopSignals:
    """While entered (in the main thread; elsewhere it does nothing), calls `first` for the first signal."""

    def __init__(
        self,
        first: Callable[[], None],
        *,
        second: Callable[[int], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first = first
        self._second = second or end_now
        self._monotonic = monotonic
        self._first_at: float | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                self._before[number] = signal.signal(number, self._received)
            # A supervisor blocks them around its forks; one that came in between is delivered now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _received(self, number: int, frame: FrameType | None) -> None:
        now = self._monotonic()
        if self._first_at is None:
            self._first_at = now
            self._first()
        elif now - self._first_at >= TOGETHER:
            self._second(number)


def end_now(number: int) -> None:
    """End this process at once, with the exit code that shells give to a signal. Leases run out by themselves."""
    os._exit(128 + number)
