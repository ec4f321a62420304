"""The app's loggers: structlog over the standard library, whether or not the host has configured either."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def get_logger(name: str) -> Any:
    """A logger whose lines always end in the standard library's logger `name`.

    That of structlog itself prints to stdout in a project that never configured structlog. A wrapped standard logger
    does not, and still follows the host's processors where there are some.
    """
    return _Logger(logging.getLogger(name))


def _unconfigured() -> list[Any]:
    """The defaults of structlog, but for tracebacks: where `rich` is installed it would draw them over a hundred lines,
    with the values of all local variables in them, and so with the payloads.
    """
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stderr is not None and sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.StackInfoRenderer(),
        structlog.dev.set_exc_info,
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
        renderer,
    ]


class _Logger:
    """A wrapped logger whose debug lines cost nothing where nobody wants them: a structlog that was never configured
    renders a line in full before it asks for the level, which took as long as a whole handler.
    """

    def __init__(self, standard: logging.Logger) -> None:
        self._standard = standard
        self._configured: Any = structlog.wrap_logger(standard)
        self._plain: Any = structlog.wrap_logger(standard, processors=_unconfigured())

    @property
    def _told(self) -> Any:
        return self._configured if structlog.is_configured() else self._plain

    def debug(self, event: str, **fields: Any) -> None:
        """As the wrapped logger's, if the standard one is to say it."""
        if self._standard.isEnabledFor(logging.DEBUG):
            self._told.debug(event, **fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._told, name)
