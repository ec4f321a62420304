"""The last step of a departure's way: the project's code is called."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from durable.errors.showing import class_name, clean, full_name, is_a, said, visible
from durable.outbound import floods
from durable.outbound.departure import Departure

LINE: Final = "log line"
MOST_DEEP: Final = 5
_LONGEST_SENTENCE: Final = 500

_depth: contextvars.ContextVar[int] = contextvars.ContextVar("durable_lines_under_way", default=0)
"""How many lines are being emitted around the current log call."""


def is_too_deep(departure: Departure) -> bool:
    """Whether it is a line caused by a line caused by a line …, because a handler logs one for each that it gets. In a
    queue this would not end by itself, as recursion does.
    """
    return departure.kind == LINE and departure.context.get(_depth, 0) > MOST_DEEP


def depart(departure: Departure) -> None:
    """Emits it. Whatever the project's code raises ends here and is printed to stderr, as the standard library does;
    only a Ctrl-C of the main thread is raised.
    """
    try:
        departure.context.run(_deeper, departure)
    # The project's code, which may raise anything.
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        _complain(departure, error)


def _deeper(departure: Departure) -> None:
    if departure.kind == LINE:
        _depth.set(_depth.get() + 1)
    departure.depart()


def is_ctrl_c(error: BaseException) -> bool:
    """Whether somebody wants this process to end: the only errors of the project's code that pass
    through the engine.
    """
    return is_a(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def guarded(call: Callable[[], object]) -> None:
    """Calls the function that looks after the thread's connections. Its errors end nothing."""
    try:
        call()
    # The thread must not end, whatever a database or a listener of the project's raises.
    except BaseException as error:  # noqa: BLE001
        _write(f"durable: the connections of log handlers and receivers: {_words(error)}")


def _complain(departure: Departure, error: BaseException) -> None:
    # By its name, since a metaclass may refuse comparisons of its classes.
    if logging.raiseExceptions and floods.admit(("complaint", departure.kind, full_name(type(error))), None):
        _write(f"durable: {departure} was lost: what takes it raised {_words(error)}")


def say_lost(counts: dict[str, int], why: str) -> None:
    """Prints to stderr how much was lost, when it can no longer be logged."""
    parts = [f"{number:,} {kind}{'' if number == 1 else 's'}" for kind, number in sorted(counts.items()) if number]
    if parts:
        _write(f"durable: {' and '.join(parts)} lost: {why}")


def _words(error: BaseException) -> str:
    name = clean(class_name(type(error)))
    # A handler's error may quote text from anybody, who must not be able to forge lines here.
    return f"{name}: {visible(said(error, _LONGEST_SENTENCE, what='error'))}"


def _write(text: str) -> None:
    with suppress(BaseException):  # no stderr, a closed one, or one of the project's own class
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
