"""Every test here begins as a process that has just been forked: without the thread, and nobody who uses it."""

from __future__ import annotations

import pytest

from durable.outbound import road


@pytest.fixture(autouse=True)
def nothing_is_under_way(lines_are_counted_anew: None) -> None:
    """Whatever an earlier test of this process has left, a worker of its own say."""
    road._begin_anew()  # what an earlier test has left in the process
