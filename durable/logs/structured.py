"""Lines through the processors of a project that has configured structlog; they end in the standard
library's logging.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog
from structlog.processors import MaybeTimeStamper, TimeStamper

from durable.kernel.texts.standins import stand_in
from durable.logs.records import Entry, bare_record, plain_record

Processor = Callable[[Any, str, Any], Any]


class _Said(str):
    """An empty text that is true: a formatter that finds it does not write the traceback again."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return True


class _End:
    """The logger for the project's processors: turns their output into a record with the line's own time, thread and
    place, and with the error itself, for tools that take errors from records.
    """

    def __init__(self, line: Entry) -> None:
        self._line = line
        self.said = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._line.standard, name)

    def _say(self, message: object = "", *args: Any, extra: dict[str, Any] | None = None, **rest: Any) -> None:
        self.said = True
        if not self._line.standard.isEnabledFor(self._line.level):
            return
        record = bare_record(self._line, message, args, extra or {})
        if record.exc_info and isinstance(message, str) and not rest.get("exc_info"):
            record.exc_text = _Said()
        self._line.standard.handle(record)

    debug = info = warning = warn = error = exception = critical = fatal = msg = _say

    def log(self, level: int, message: object = "", *args: Any, **rest: Any) -> None:
        """As the standard library's; the level is the line's."""
        self._say(message, *args, **rest)


def say(line: Entry) -> None:
    """Logs a line through the project's processors. If they raise, it is logged without them, and their error is
    raised.

    They get a copy of the error without local variables, since they may print these; the record has the error itself.
    """
    end = _End(line)
    try:
        logger: Any = structlog.wrap_logger(end, processors=_processors(line))
        fields = dict(line.fields)
        if line.exc_info is not None:
            error = stand_in(line.exc_info[1])
            fields["exc_info"] = (type(error), error, error.__traceback__)
        answer = getattr(logger, logging.getLevelName(line.level).lower())(line.event, **fields)
        if inspect.iscoroutine(answer):  # a wrapper for async code, which nobody awaits here
            answer.close()
            raise TypeError("the configured wrapper_class of structlog is for async code")
    except BaseException:
        if not end.said and line.standard.isEnabledFor(line.level):
            line.standard.handle(plain_record(line, line.fields))
        raise


def _processors(line: Entry) -> list[Processor]:
    """The project's processors, with the time of the log call."""
    return [_stamping(processor, line.at) for processor in structlog.get_config()["processors"]]


def _stamping(processor: Processor, at: float) -> Processor:
    only_missing = type(processor) is MaybeTimeStamper
    stamper: Any = processor.stamper if isinstance(processor, MaybeTimeStamper) else processor
    if type(stamper) is not TimeStamper:
        return processor
    time_stamper: TimeStamper = stamper

    def stamp(logger: Any, name: str, event: Any) -> Any:
        if not (only_missing and time_stamper.key in event):
            event[time_stamper.key] = _moment(time_stamper, at)
        return event

    return stamp


def _moment(stamper: TimeStamper, at: float) -> str | float:
    if stamper.fmt is None:
        return at
    moment = datetime.fromtimestamp(at, UTC)
    if stamper.fmt.upper() == "ISO":
        if stamper.utc:
            return moment.isoformat().replace("+00:00", "Z")
        return moment.astimezone().replace(tzinfo=None).isoformat()
    return (moment if stamper.utc else moment.astimezone()).strftime(stamper.fmt)
