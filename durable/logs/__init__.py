"""The engine's log lines: events with fields, through the standard library's logging or the host's structlog.

A line is made where it is said, with its time, thread, place and context variables. It leaves as `durable.outbound`
says: after the commit of the transaction that it was said in, and in a worker through a thread of its own. At WARNING
and above, each event leaves at most twenty times a minute for one class of error; then a line says how many more.
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
    """Says events with fields. Nothing that the host's logging does reaches the caller.

    `exc_info` is an exception, or True for the one that is being handled. Lines of a level that nobody wants cost a
    look.
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
        """Whether anybody wants lines at DEBUG: for who would make the fields of many."""
        return self._standard.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, **fields: Any) -> None:
        """Say it at DEBUG."""
        if self.is_for_debug:
            self._say(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Say it at INFO."""
        if self._wanted(logging.INFO):
            self._say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Say it at WARNING."""
        if self._wanted(logging.WARNING):
            self._say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Say it at ERROR."""
        if self._wanted(logging.ERROR):
            self._say(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Say it at ERROR, with the exception that is being handled."""
        if self._wanted(logging.ERROR):
            self._say(logging.ERROR, event, {"exc_info": True, **fields})

    def _wanted(self, level: int) -> bool:
        """By the standard library's levels; processors of the host's may take what those keep out."""
        return self._standard.isEnabledFor(level) or structlog.is_configured()

    def _say(self, level: int, event: str, fields: dict[str, Any]) -> None:
        caller = sys._getframe(2)
        send(made(self._standard, level, event, {**self._bound, **fields}, caller))


def get_logger(name: str) -> Logger:
    """A logger whose lines end in the standard library's logger `name`."""
    return Logger(logging.getLogger(name), {})


def overflowed(lost: dict[str, int]) -> Line:
    """The line that says how much found no room in the queue, by kind."""
    fields = {kind.replace(" ", "_") + "s": number for kind, number in sorted(lost.items())}
    return made(logging.getLogger("durable.outbound"), logging.WARNING, "outbound.overflowed", fields, sys._getframe())


def _leave_the_class(record: logging.LogRecord) -> None:
    info, record.exc_info = record.exc_info, None
    named = full_name(info[0]) if isinstance(info, tuple) and info[0] is not None else "no error"
    rest = record.args[1:] if isinstance(record.args, tuple) else ()
    record.args = (f"A problem in the workflow's loop: {named}", *rest)


def _say_record(record: logging.LogRecord) -> None:
    if record.pathname == of_workflow_code.OURS and not says_texts():
        # The error is the code's, and so may be the words about it. What the code itself logs is left as it is.
        _leave_the_class(record)
    send(Record(record))


of_workflow_code.say = _say_record
