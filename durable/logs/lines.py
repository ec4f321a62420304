"""A line on its way out: what it says, and when, where and by which thread it was said."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any

import structlog

from durable.errors.showing import full_name
from durable.kernel.tracebacks import real_traceback
from durable.logs import structured
from durable.logs.fields import spoken
from durable.logs.records import plain_record
from durable.outbound import floods

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def _this_thread() -> tuple[int, str]:
    return threading.get_ident(), threading.current_thread().name


@dataclass(slots=True)
class Line:
    """An event of the engine's. `fields` are plain values, made so at the call."""

    standard: logging.Logger
    level: int
    event: str
    fields: dict[str, Any]
    exc_info: ExcInfo | None
    place: tuple[str, int, str]
    at: float = field(default_factory=lambda: time.time())  # noqa: PLW0108 - a clock that tests replace
    thread: tuple[int, str] = field(default_factory=_this_thread)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    more: int = 0

    @property
    def kind(self) -> str:
        return "log line"

    def __str__(self) -> str:
        return f"the log line {self.event!r}"

    def is_admitted(self) -> bool:
        """Whether it may leave: of what is worth a warning, so many of one event and one class of error a minute."""
        if self.level < logging.WARNING or self.more:
            return True
        return floods.admit((self.standard.name, self.event, self._error_class()), self._summary)

    def depart(self) -> None:
        """Hand it to the host's processors, if structlog is configured, else to the standard library's logging."""
        if structlog.is_configured():
            structured.say(self)
        else:
            self.standard.handle(plain_record(self, {**structlog.contextvars.get_contextvars(), **self.fields}))

    def _error_class(self) -> str:
        """The class of the error it speaks of, by name; empty when it speaks of none."""
        named = str(self.fields.get("error_type", ""))
        return named or ("" if self.exc_info is None else full_name(self.exc_info[0]))

    def _summary(self, more: int) -> Line:
        """What says how many more there were in the minute."""
        found = self._error_class()
        return Line(
            standard=self.standard,
            level=self.level,
            event=f"{self.event} … and {more:,} more in the last minute",
            fields={"more": more, **({"error_type": found} if found else {})},
            exc_info=None,
            place=self.place,
            more=more,
        )


@dataclass(slots=True)
class Record:
    """A record of workflow code, made where it was said."""

    record: logging.LogRecord
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    @property
    def kind(self) -> str:
        return "log line"

    def __str__(self) -> str:
        return f"a log line of workflow code ({self.record.pathname}:{self.record.lineno})"

    def is_admitted(self) -> bool:
        """The host's own lines are not counted."""
        return True

    def depart(self) -> None:
        logging.getLogger(self.record.name).handle(self.record)


def made(standard: logging.Logger, level: int, event: str, given: Mapping[str, Any], caller: FrameType) -> Line:
    """A line said at `caller`. An `exc_info` among the fields is an exception, or whether there is one at hand."""
    fields = {name: spoken(value) for name, value in given.items() if name != "exc_info"}
    code = caller.f_code
    return Line(
        standard=standard,
        level=level,
        event=event,
        fields=fields,
        exc_info=_exc_info(given.get("exc_info")),
        place=(code.co_filename, caller.f_lineno, code.co_name),
    )


def _exc_info(given: object) -> ExcInfo | None:
    error = given if isinstance(given, BaseException) else sys.exception() if given else None
    return None if error is None else (type(error), error, real_traceback(error))
