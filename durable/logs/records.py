"""Records of the standard library: the event is the message, the fields are attributes, and the text has both, once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol

from durable.errors.showing import visible
from durable.kernel.texts import tracebacks
from durable.logs.fields import text_of

_RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


class Entry(Protocol):
    """What a record is made of, such as a `lines.Line`: an event, and the time, place and thread of its call."""

    standard: logging.Logger
    level: int
    event: str
    fields: dict[str, Any]
    exc_info: ExcInfo | None
    place: tuple[str, int, str]
    at: float
    thread: tuple[int, str]


class EventRecord(logging.LogRecord):
    """A record whose `msg` is only the event, so that tools can group by it, and whose text ends with the fields."""

    def getMessage(self) -> str:  # noqa: N802 - logging's name
        message = super().getMessage()
        fields = self.__dict__.get("durable_text")
        # A queue handler has put the whole text into `msg` already.
        return f"{message} {fields}" if fields and self.msg == self.__dict__.get("durable_event") else message


def plain_record(line: Entry, fields: Mapping[str, Any]) -> logging.LogRecord:
    """The record of a line, by the project's record factory."""
    record = bare_record(line, line.event, (), {_attribute(name): value for name, value in fields.items()})
    record.exc_text = written(line.exc_info)
    if not fields:
        return record
    text = text_of(fields)
    if type(record) is logging.LogRecord:
        record.__class__ = EventRecord
        record.durable_event, record.durable_text = line.event, text
    else:  # a class of the project's keeps its own way to make the text
        record.msg = f"{line.event} {text}"
    return record


def written(exc_info: Any) -> str | None:
    """The traceback as text, if a text in it has line breaks or invisible characters: the sender of that text could
    forge log lines. None for other errors, which the formatter renders itself.
    """
    error = exc_info[1] if isinstance(exc_info, tuple) else None
    if error is None or all(visible(text) == text for text in tracebacks.texts(error)):
        return None
    return tracebacks.logged(error)


def bare_record(line: Entry, message: object, args: tuple[Any, ...], extra: Mapping[str, Any]) -> logging.LogRecord:
    """A record with this message and the time, place and thread of the log call."""
    path, number, function = line.place
    record = line.standard.makeRecord(
        line.standard.name, line.level, path, number, message, args, line.exc_info, function
    )
    late = record.created - line.at
    record.created = line.at
    record.msecs = int((line.at - int(line.at)) * 1000) + 0.0
    record.relativeCreated -= late * 1000
    record.thread, record.threadName = line.thread
    vars(record).update(extra)
    return record


def _attribute(name: str) -> str:
    """The name of a field as an attribute of a record, which has names of its own."""
    return f"{name}_" if name in _RESERVED else name
