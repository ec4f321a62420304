"""What signals do to a worker or a supervisor. The table for operators is in `docs/operations.md`.

SIGTERM, SIGINT and SIGHUP request a clean stop; a later second one, or SIGQUIT, ends the grace. Signals that mean
nothing to a worker, but would end the process by default, also stop it cleanly, since its rows would otherwise stay
claimed until their leases expire.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CAUGHT_EVEN_IF_IGNORED = (signal.SIGTERM, signal.SIGINT)
"""Shells ignore SIGINT for background jobs, and some entry points ignore SIGTERM; a worker still stops cleanly. SIGHUP
and SIGQUIT stay ignored if the parent has ignored them, as `nohup` does.
"""

_NAMES_OF_UNASKED = (
    "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU", "SIGIO", "SIGPWR", "SIGSTKFLT",
)  # fmt: skip
UNASKED_SIGNALS = (
    *(signal.Signals[name] for name in _NAMES_OF_UNASKED if hasattr(signal, name)),
    *(range(signal.SIGRTMIN, signal.SIGRTMAX + 1) if hasattr(signal, "SIGRTMIN") else ()),
)
"""Signals whose default action ends a process, and that nobody sends to a worker on purpose. If the project has a
handler for one, it is left in place.
"""

TO_STOP = (*STOP_SIGNALS, signal.SIGQUIT)

_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTIN, signal.SIGTTOU)
"""The calls that cause them fail with an error instead: of a pipe without reader, of a file that is too large, and of a
terminal that belongs to another job, which would otherwise stop the whole process until somebody notices."""

HANDLED = (*STOP_SIGNALS, signal.SIGQUIT, *UNASKED_SIGNALS)
TOGETHER = 0.5
"""Seconds after the first signal in which another counts as the same: `timeout`, shells and process managers signal a
process and then its group, which must not cut off handlers.
"""


class StopSignals:
    """While entered (in the main thread; elsewhere it does nothing), calls `first` for the first signal, and `second`
    with the number of a later one or of SIGQUIT.
    """

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
        self._unasked: int | None = None
        self._before: dict[int, Any] = {}
        self._stays_deaf = False

    def stay_deaf(self) -> None:
        """Leaves the stop signals ignored at the exit of this block. For a process that ends then: Python restores
        their default actions while it shuts down, and a third signal would turn a clean end into a death by signal.
        """
        self._stays_deaf = True

    def code(self, code: int) -> int:
        """The exit code: `code`, except after a clean end that was caused by a signal which nobody sends on purpose.
        Then it is 128 plus its number, so that a service manager restarts the worker.
        """
        return 128 + self._unasked if code == 0 and self._unasked is not None else code

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in TO_STOP:
                if number in CAUGHT_EVEN_IF_IGNORED or signal.getsignal(number) is not signal.SIG_IGN:
                    self._set(number, self._quit if number == signal.SIGQUIT else self._received)
            for number in UNASKED_SIGNALS:
                self._set_default(number, self._received_unasked)
            for number in _IGNORED:
                self._set_default(number, signal.SIG_IGN)
            if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
                # Inherited from the parent. The system would reap the processes that handlers start, and `subprocess`
                # would tell each handler that its process has ended with 0.
                self._set(signal.SIGCHLD, signal.SIG_DFL)
            if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
                faulthandler.register(signal.SIGUSR1, file=2)
            # The mask is inherited, and a supervisor blocks signals around its forks; one that came meanwhile is
            # delivered now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [*HANDLED, signal.SIGUSR1, signal.SIGCHLD])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            if self._stays_deaf and number in TO_STOP:
                signal.signal(number, signal.SIG_IGN)
            elif handler is not None:  # None: one that was not set by Python, and cannot be set again
                signal.signal(number, handler)
        if self._before:
            faulthandler.unregister(signal.SIGUSR1)

    def _set(self, number: int, action: Any) -> None:
        self._before[number] = signal.signal(number, action)

    def _set_default(self, number: int, action: Any) -> None:
        if signal.getsignal(number) is signal.SIG_DFL:
            self._set(number, action)

    def _received(self, number: int, frame: FrameType | None) -> None:
        now = self._monotonic()
        if self._first_at is None:
            self._first_at = now
            self._first()
        elif now - self._first_at >= TOGETHER:
            self._second(number)

    def _received_unasked(self, number: int, frame: FrameType | None) -> None:
        if self._first_at is None:
            self._unasked = number
            self._first_at = self._monotonic()
            self._first()

    def _quit(self, number: int, frame: FrameType | None) -> None:
        if self._first_at is None:
            self._first_at = self._monotonic()
            self._first()
        self._second(number)


def end_now(number: int) -> None:
    """Ends this process at once, with the exit code that shells give to a signal. Leases expire by themselves."""
    os._exit(128 + number)
