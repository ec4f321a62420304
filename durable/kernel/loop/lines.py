"""Where the log lines of workflow code go. The kernel makes the records; its caller decides what happens to them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

OURS: Final = "(durable)"
"""Stands for the place of a record that the engine has made itself."""
_LASTING: Final = (str, int, float, bool, type(None))


def _at_once(record: logging.LogRecord) -> None:
    logging.getLogger(record.name).handle(record)


say: Callable[[logging.LogRecord], None] = _at_once
"""Takes a finished record. `durable.logs` replaces it with a function that shields from the project's handlers and
waits for the commit.
"""


def made(
    logger: logging.Logger, level: int, message: str, *args: object, exc_info: BaseException | None = None
) -> logging.LogRecord:
    """A record of the engine's own, about a workflow's code: without a place, which would be ours."""
    info = None if exc_info is None else (type(exc_info), exc_info, exc_info.__traceback__)
    return logger.makeRecord(logger.name, level, OURS, 0, message, args, info)


def of_code(
    logger: logging.Logger, level: int, message: object, args: tuple[Any, ...], options: Mapping[str, Any]
) -> logging.LogRecord:
    """The record of a line that workflow code logs, with its place: `stacklevel` frames above the caller of this.

    Arguments that may change before it is emitted are rendered here. If the line cannot be made, because of its text or
    its extras, a line that says so takes its place: logging must not make a workflow fail.
    """
    try:
        path, number, function, stack = logger.findCaller(
            bool(options.get("stack_info")), int(options.get("stacklevel", 1)) + 1
        )
        exc_info = options.get("exc_info")
        error = exc_info if isinstance(exc_info, BaseException) else sys.exception() if exc_info is True else None
        info = (type(error), error, error.__traceback__) if error is not None else exc_info or None
        text: object = message
        if not isinstance(message, str) or not all(type(value) in _LASTING for value in args):
            text, args = logging.LogRecord(logger.name, level, path, number, message, args, None).getMessage(), ()
        extra = options.get("extra")
        return logger.makeRecord(logger.name, level, path, number, text, args, info, function, extra, stack)
    # The text and its arguments are the user's, with code of their own.
    except BaseException as error:  # noqa: BLE001
        return made(logger, level, "A line of workflow code could not be written (%s)", type(error).__name__)
