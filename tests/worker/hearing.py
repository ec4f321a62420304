"""Listening to what leaves: handlers that keep, raise, block or write, on the engine's loggers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from durable import logs
from durable.outbound import Upkeep
from tests.waiting import Gate

UPKEEP = Upkeep(before=lambda: None, after=lambda kind: None, idle=lambda: None, overflowed=logs.overflowed)


class Ear(logging.Handler):
    """Does `also` with each record, then keeps it."""

    def __init__(self, also: Callable[[logging.LogRecord], object] = lambda record: None) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.also = also

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.also(record)

    def said(self, level: int = logging.WARNING) -> list[tuple[str, str]]:
        """Level and event of what came, at this level or above."""
        return [(record.levelname, str(record.msg)) for record in self.records if record.levelno >= level]

    def of(self, event: str) -> list[logging.LogRecord]:
        """The records of one event."""
        return [record for record in self.records if record.msg == event]


@contextmanager
def unstructured() -> Iterator[None]:
    """A host that never configured structlog; afterwards as it was (the demo's settings, say, do configure it)."""
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    try:
        yield
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)


@contextmanager
def listening(
    also: Callable[[logging.LogRecord], object] = lambda record: None,
    *,
    name: str = "durable",
    level: int = logging.INFO,
) -> Iterator[Ear]:
    """An ear on a logger, which lets this level through meanwhile, in a host without structlog."""
    logger, ear = logging.getLogger(name), Ear(also)
    before = logger.level
    logger.addHandler(ear)
    logger.setLevel(level)
    try:
        with unstructured():
            yield ear
    finally:
        logger.removeHandler(ear)
        logger.setLevel(before)


def raising(error: BaseException) -> Callable[[logging.LogRecord], None]:
    """What raises for each record."""

    def raise_it(record: logging.LogRecord) -> None:
        raise error

    return raise_it


def blocking(gate: Gate) -> Callable[[logging.LogRecord], None]:
    """What waits at a door with each record."""

    def wait(record: logging.LogRecord) -> None:
        gate.pass_through()

    return wait


def writing(record: logging.LogRecord) -> None:
    """What writes each record into the database, as handlers of real hosts do."""
    from tests.ledger.models import Entry

    Entry.objects.create(label="log", note=str(record.msg)[:200])


def fields(record: logging.LogRecord, *names: str) -> tuple[Any, ...]:
    """Some fields of a record."""
    return tuple(vars(record).get(name) for name in names)
