"""Every test here begins as a process that has just been forked: without the thread, and nobody who uses it."""

from __future__ import annotations

import logging.handlers
from collections.abc import Iterator

import pytest

from durable.outbound import road
from tests.logs.records import NAME, Kept
from tests.worker.hearing import unstructured


@pytest.fixture(autouse=True)
def nothing_is_under_way(lines_are_counted_anew: None) -> None:
    """Whatever an earlier test of this process has left, a worker of its own say."""
    road._begin_anew()  # what an earlier test has left in the process


@pytest.fixture
def unconfigured() -> Iterator[None]:
    """A host that never configured structlog."""
    with unstructured():
        yield


@pytest.fixture
def kept(unconfigured: None) -> Iterator[Kept]:
    """A handler on the logger of these tests, which lets everything through."""
    logger, handler = logging.getLogger(NAME), Kept()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)
