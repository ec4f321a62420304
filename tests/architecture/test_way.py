"""The way of one activity, as the architecture page tells it, can be walked."""

from __future__ import annotations

from tests.architecture.source import ROOT, Source, used_by, way

MOST_FILES = 30
WHERE_ANOTHER_THREAD_BEGINS = {"durable/worker/process/worker.py"}


def test_the_way_is_short() -> None:
    steps = way()
    assert 20 < len(steps) <= MOST_FILES
    assert len(set(steps)) == len(steps)


def test_every_file_on_the_way_exists() -> None:
    assert [place for place in way() if not (ROOT / place).is_file()] == []


def test_each_file_on_the_way_is_used_by_one_before_it() -> None:
    """Else the reader would have to guess how he got there."""
    known: set[str] = set()
    lost = []
    for place in way():
        if known and place not in known and place not in WHERE_ANOTHER_THREAD_BEGINS:
            lost.append(place)
        known |= used_by(Source(ROOT / place))
    assert lost == []
