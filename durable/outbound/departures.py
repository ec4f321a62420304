"""One thing on its way out, and the last step of the way."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from durable.outbound import floods


class Departure(Protocol):
    """A log line or a signal. `kind` is its noun; `context` the context variables of the call that made it."""

    @property
    def kind(self) -> str: ...

    @property
    def context(self) -> contextvars.Context: ...

    def is_admitted(self) -> bool:
        """Whether it is to leave at all, or is one too many of its kind. Asked once."""
        ...

    def depart(self) -> None:
        """Call the host's code. May raise anything."""
        ...


def depart(departure: Departure) -> None:
    """Let it go. Whatever the host's code raises ends here and is said on stderr, as the standard library does; only a
    Ctrl-C of the main thread passes.
    """
    try:
        departure.context.run(departure.depart)
    # The host's code, which may raise anything.
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        _complain(departure, error)


def is_ctrl_c(error: BaseException) -> bool:
    """Whether somebody wants this process to end: the one thing that host code may let pass through the engine."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def guarded(call: Callable[[], object]) -> None:
    """Call what keeps the host's connections in order. An error of it ends nothing."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the thread must not end, whatever a database says
        _write(f"durable: the connections of log handlers and receivers: {_words(error)}")


def _complain(departure: Departure, error: BaseException) -> None:
    if logging.raiseExceptions and floods.admit(("complaint", departure.kind, type(error)), None):
        _write(f"durable: {departure} was lost: what takes it raised {_words(error)}")


def say_lost(counts: dict[str, int], why: str) -> None:
    """Say on stderr how much was lost, where no log can say it any more."""
    found = [f"{number:,} {kind}{'' if number == 1 else 's'}" for kind, number in sorted(counts.items()) if number]
    if found:
        _write(f"durable: {' and '.join(found)} lost: {why}")


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__qualname__}: {error}"
    except BaseException:  # noqa: BLE001 - its `str` is the host's code as well
        return f"{type(error).__qualname__}, whose text can not be read"


def _write(text: str) -> None:
    with suppress(Exception):  # no stderr, or a closed one
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
