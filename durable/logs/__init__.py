"""The engine's log lines: events with fields, through the standard library's logging or the project's structlog.

A line is made at the log call, with its time, thread, place and context variables. `durable.outbound` emits it: after
the commit of the transaction in which it was logged, and in a worker on a separate thread. At WARNING and above, each
event is emitted at most twenty times a minute for one class of error; then one line says how many more there were.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from durable.errors.showing import full_name
from durable.kernel.loop import lines as of_workflow_code
from durable.logs.lines import Line, Record, made, says_texts, words
from durable.outbound import send

__all__ = ["Logger", "get_logger", "overflowed", "says_texts", "words"]


class Logger:
    """Logs events with fields. Errors of the project's logging do not reach the caller.

    `exc_info` is an exception, or True for the one that is being handled. Lines of a disabled level cost almost
    nothing.
    """

    __slots__ = ("_bound", "_standard")

    def __init__(self, standard: logging.Logger, bound: dict[str, Any]) -> None:
        self._standard = standard
        self._bound = bound

    def bind(self, **fields: Any) -> Logger:
        """A logger whose lines carry these fields as well."""
        return Logger(self._standard, {**self._bound, **fields})

    @property
    def is_for_debug(self) -> bool:
        """Whether DEBUG is enabled: for callers with many lines, whose fields are expensive."""
        return self._standard.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, **fields: Any) -> None:
        """Logs at DEBUG."""
        if self.is_for_debug:
            self._say(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Logs at INFO."""
        if self._wanted(logging.INFO):
            self._say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Logs at WARNING."""
        if self._wanted(logging.WARNING):
            self._say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Logs at ERROR."""
        if self._wanted(logging.ERROR):
            self._say(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Logs at ERROR, with the exception that is being handled."""
        if self._wanted(logging.ERROR):
            self._say(logging.ERROR, event, {"exc_info": True, **fields})

    def _wanted(self, level: int) -> bool:
        """By the standard library's levels, or structlog's if it is configured."""
        return self._standard.isEnabledFor(level) or structlog.is_configured()

    def _say(self, level: int, event: str, fields: dict[str, Any]) -> None:
        caller = sys._getframe(2)
        send(made(self._standard, level, event, {**self._bound, **fields}, caller))


def get_logger(name: str) -> Logger:
    """A logger whose lines end in the standard library's logger `name`."""
    return Logger(logging.getLogger(name), {})


def overflowed(lost: dict[str, int]) -> Line:
    """The line that says how much was lost because the queue was full, by kind."""
    fields = {kind.replace(" ", "_") + "s": number for kind, number in sorted(lost.items())}
    return made(logging.getLogger("durable.outbound"), logging.WARNING, "outbound.overflowed", fields, sys._getframe())


def _leave_the_class(record: logging.LogRecord) -> None:
    info, record.exc_info = record.exc_info, None
    named = full_name(info[0]) if isinstance(info, tuple) and info[0] is not None else "no error"
    rest = record.args[1:] if isinstance(record.args, tuple) else ()
    record.args = (f"A problem in the workflow's loop: {named}", *rest)


def _say_record(record: logging.LogRecord) -> None:
    if record.pathname == of_workflow_code.OURS and not says_texts():
        # The error comes from the project's code, and the text about it may, too. Lines that the code logs itself are
        # not changed.
        _leave_the_class(record)
    send(Record(record))


of_workflow_code.say = _say_record
