"""Floods of lines: twenty a minute of one event and class of error, then their number."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from durable import outbound
from durable.logs import get_logger
from durable.outbound import floods
from tests.waiting import PATIENCE
from tests.worker.hearing import UPKEEP, Ear, listening


class Minutes:
    """Time as the test wants it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> Minutes:
    """The clock of the counting."""
    found = Minutes()
    monkeypatch.setattr(floods, "monotonic", found)
    return found


@pytest.fixture
def ear() -> Iterator[Ear]:
    """What is heard."""
    with listening(name="durable.tests", level=logging.DEBUG) as found:
        yield found


logger = get_logger("durable.tests")


def test_of_332_lines_in_a_minute_20_leave_and_one_says_how_many_more(minutes: Minutes, ear: Ear) -> None:
    for number in range(332):
        logger.warning("order.lost", error_type="ValueError", number=number)
    assert len(ear.records) == 20
    minutes.now += 60
    logger.warning("order.lost", error_type="ValueError", number=332)
    assert [str(record.msg) for record in ear.records[20:]] == [
        "order.lost … and 312 more in the last minute",
        "order.lost",
    ]
    assert (ear.records[20].levelname, vars(ear.records[20])["more"]) == ("WARNING", 312)


def test_each_event_and_each_class_of_error_is_counted_for_itself(minutes: Minutes, ear: Ear) -> None:
    for _ in range(25):
        for name in ("ValueError", "KeyError"):
            logger.warning("order.lost", error_type=name)
        for error in (LookupError(), OSError()):
            logger.error("order.gone", exc_info=error)
    assert len(ear.records) == 80


def test_what_is_no_warning_is_not_counted(minutes: Minutes, ear: Ear) -> None:
    for _ in range(30):
        logger.info("order.found")
    assert len(ear.records) == 30


def test_the_sum_of_a_minute_is_said_by_the_next_line_of_any_kind(minutes: Minutes, ear: Ear) -> None:
    for _ in range(21):
        logger.error("order.lost")
    minutes.now += 61
    logger.warning("another")
    assert [str(record.msg) for record in ear.records[20:]] == [
        "order.lost … and 1 more in the last minute",
        "another",
    ]


def test_the_next_minute_begins_anew_and_a_sum_is_said_once(minutes: Minutes, ear: Ear) -> None:
    for _ in range(3):
        for _ in range(30):
            logger.warning("order.lost")
        minutes.now += 60
    logger.info("end")
    assert [str(record.msg) for record in ear.records if record.msg != "order.lost"] == [
        *["order.lost … and 10 more in the last minute"] * 3,
        "end",
    ]


def test_a_worker_says_the_sum_at_its_end_without_another_line(minutes: Minutes, ear: Ear) -> None:
    outbound.start(UPKEEP)
    for _ in range(50):
        logger.warning("order.lost")
    assert outbound.stop(PATIENCE)
    assert ear.said()[20:] == [("WARNING", "order.lost … and 30 more in the last minute")]


def test_a_worker_says_the_sum_when_the_minute_is_over_without_another_line(
    ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floods, "SPAN", 0.2)
    heard = threading.Event()
    ear.also = lambda record: heard.set() if "more in the last" in str(record.msg) else None
    outbound.start(UPKEEP)
    try:
        for _ in range(50):
            logger.warning("order.lost")
        assert heard.wait(PATIENCE)
    finally:
        outbound.stop(PATIENCE)


def test_many_classes_of_errors_are_not_remembered_for_ever(minutes: Minutes, ear: Ear) -> None:
    for number in range(5_000):
        logger.warning("order.lost", error_type=f"Error{number}")
        minutes.now += 1
    assert len(floods._windows) <= 1_000  # memory that grows shows in no result


def test_errors_of_thousands_of_classes_cost_each_of_them_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class made at each call, say: all of a minute are remembered, and not all looked through for each."""
    floods.reset()
    looks: list[int] = []
    forget = floods._forget_old  # how often it looks through all shows in no result

    def counting(now: float) -> None:
        looks.append(len(floods._windows))
        forget(now)

    moment = [0.0]
    monkeypatch.setattr(floods, "monotonic", lambda: moment[0])
    monkeypatch.setattr(floods, "_forget_old", counting)
    for number in range(20_000):
        assert floods.admit(("event", f"Error{number}"), None)
    assert sum(looks) < 4 * 20_000
    moment[0] = 61.0
    for number in range(20_001):
        floods.admit(("event", f"Later{number}"), None)
    assert "Error0" not in {key[1] for key in floods._windows}  # type: ignore[index]
    floods.reset()
