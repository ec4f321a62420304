"""A log line on its way out: its event and fields, and the time, place and thread of the call."""

from __future__ import annotations

import contextvars
import logging
import re
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import structlog
from django.core.exceptions import ImproperlyConfigured

from durable.conf import settings
from durable.errors import ConfigurationError
from durable.errors.showing import class_name, clean, full_name
from durable.kernel.texts.failure import for_report, sentence, without_frames
from durable.kernel.texts.tracebacks import real_traceback
from durable.logs import structured
from durable.logs.fields import spoken
from durable.logs.records import ExcInfo, plain_record, written
from durable.outbound import departures, floods

_STATE = re.compile(r"[0-9A-Z]{5}|SQLITE_[A-Z_]{1,40}")


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
        return departures.LINE

    def __str__(self) -> str:
        return f"the log line {self.event!r}"

    @property
    def is_heavy(self) -> bool:
        return self.exc_info is not None and self.exc_info[2] is not None

    def lighten(self) -> None:
        self.exc_info = _light(self.exc_info)

    def is_admitted(self) -> bool:
        """Whether it may be emitted: from WARNING on, each event and class of error has a limit per minute."""
        if self.level < logging.WARNING or self.more:
            return True
        return floods.admit((self.standard.name, self.event, self._error_class()), self._summary)

    def depart(self) -> None:
        """Passes it to the project's processors if structlog is configured, else to the standard library's logging."""
        self.exc_info = _safe(self.exc_info)
        if structlog.is_configured():
            structured.say(self)
        else:
            bound = {name: spoken(value) for name, value in structlog.contextvars.get_contextvars().items()}
            self.standard.handle(plain_record(self, {**bound, **self.fields}))

    def _error_class(self) -> str:
        """The name of its error's class, or empty if it has none."""
        named = str(self.fields.get("error_type", ""))
        return named or ("" if self.exc_info is None else full_name(self.exc_info[0]))

    def _summary(self, more: int) -> Line:
        """The line that says how many more there were in the minute."""
        error_type = self._error_class()
        return Line(
            standard=self.standard,
            level=self.level,
            event=f"{self.event} … and {more:,} more in the last minute",
            fields={"more": more, **({"error_type": error_type} if error_type else {})},
            exc_info=None,
            place=self.place,
            more=more,
        )


@dataclass(slots=True)
class Record:
    """A record from workflow code, made at the log call."""

    record: logging.LogRecord
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    @property
    def kind(self) -> str:
        return departures.LINE

    def __str__(self) -> str:
        return f"a log line of workflow code ({self.record.pathname}:{self.record.lineno})"

    @property
    def is_heavy(self) -> bool:
        return isinstance(self.record.exc_info, tuple) and self.record.exc_info[2] is not None

    def lighten(self) -> None:
        self.record.exc_info = _light(self._exc_info)

    def is_admitted(self) -> bool:
        """The project's own lines are not counted."""
        return True

    def depart(self) -> None:
        if self._exc_info is not None:
            self.record.exc_info = safe = _safe(self._exc_info)
            self.record.exc_text = self.record.exc_text or written(safe)
        logging.getLogger(self.record.name).handle(self.record)

    @property
    def _exc_info(self) -> ExcInfo | None:
        exc_info: Any = self.record.exc_info
        return exc_info if isinstance(exc_info, tuple) and isinstance(exc_info[1], BaseException) else None


def made(standard: logging.Logger, level: int, event: str, fields_given: Mapping[str, Any], caller: FrameType) -> Line:
    """A line logged at `caller`. `exc_info` among the fields is an exception, or True for the current one. If
    `LOG_FAILURES` keeps the texts of errors out of the logs, only its class is logged.
    """
    fields = {name: spoken(value) for name, value in fields_given.items() if name != "exc_info"}
    code = caller.f_code
    exc_info = _exc_info(fields_given.get("exc_info"))
    if exc_info is not None and not says_texts():
        fields.setdefault("error_type", full_name(exc_info[0]))
        if state := _state(exc_info[1]):
            fields.setdefault("sqlstate", state)
        exc_info = None
    return Line(
        standard=standard,
        level=level,
        event=event,
        fields=fields,
        exc_info=exc_info,
        place=(code.co_filename, caller.f_lineno, code.co_name),
    )


def says_texts() -> bool:
    """Whether lines may hold what errors say. Not while the settings cannot be read."""
    try:
        return settings.logs_texts_of_failures
    except (ConfigurationError, ImproperlyConfigured):
        return False


def words(error: BaseException) -> str:
    """Class and text of an error, in one line. If `LOG_FAILURES` keeps the texts of errors out of the logs: only its
    class, and for database errors the SQLSTATE (SQLite: the name of its code), since servers quote the values that they
    refuse.
    """
    if says_texts():
        return sentence(error)
    name, state = clean(class_name(type(error))), _state(error)
    return f"{name} ({state})" if state else name


def _state(error: BaseException) -> str:
    """The SQLSTATE, or SQLite's name, of the error or of the driver's error that Django has wrapped; else empty."""
    try:
        for link in (error, error.__cause__):
            for name in ("sqlstate", "pgcode", "sqlite_errorname"):
                state = getattr(link, name, None)
                if type(state) is str and _STATE.fullmatch(state):
                    return state
    except BaseException:  # noqa: BLE001 - it may be any error of a handler's, and its attributes the user's code
        return ""
    return ""


def _exc_info(chosen: object) -> ExcInfo | None:
    error = chosen if isinstance(chosen, BaseException) else sys.exception() if chosen else None
    return None if error is None else _of(error)


def _of(error: BaseException) -> ExcInfo:
    return type(error), error, real_traceback(error)


def _safe(exc_info: ExcInfo | None) -> ExcInfo | None:
    """The error for formatters and reporters. Only called on the way out: its text runs the user's code, which must not
    happen in a transaction of ours.
    """
    return None if exc_info is None else _of(for_report(exc_info[1]))


def _light(exc_info: ExcInfo | None) -> ExcInfo | None:
    """An error with the same name and text that keeps no objects alive."""
    return None if exc_info is None else _of(without_frames(exc_info[1]))
