"""Lines as the standard library's logging gets them."""

from __future__ import annotations

import logging.handlers

NAME = "durable.tests"


class Kept(logging.Handler):
    """Keeps the records that come."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
