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
    return structlog.wrap_logger(logging.getLogger(name))
