"""The app's loggers: structlog over the standard library, whether or not the host has configured either."""

from __future__ import annotations

import logging
from typing import Any

import structlog


def get_logger(name: str) -> Any:
    """A logger whose lines always end in the standard library's logger `name`.

    That of structlog itself prints to stdout in a project that never configured structlog. A wrapped standard logger
    does not, and still follows the host's processors where there are some.
    """
    return _Logger(logging.getLogger(name))


class _Logger:
    """A wrapped logger whose debug lines cost nothing where nobody wants them: a structlog that was never configured
    renders a line in full before it asks for the level, which took as long as a whole handler.
    """

    def __init__(self, standard: logging.Logger) -> None:
        self._standard = standard
        self._told: Any = structlog.wrap_logger(standard)

    def debug(self, event: str, **fields: Any) -> None:
        """As the wrapped logger's, if the standard one is to say it."""
        if self._standard.isEnabledFor(logging.DEBUG):
            self._told.debug(event, **fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._told, name)
