"""The thread that lines and signals leave through, and its queue."""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Iterator

import pytest

from durable import outbound
from durable.kernel.loop import lines as of_workflow_code
from durable.logs import get_logger
from durable.outbound import Upkeep, departures, holding, road
from tests import hostile
from tests.waiting import PATIENCE, Gate
from tests.worker.hearing import UPKEEP, blocking, listening, raising

logger = get_logger("durable.tests")


@pytest.fixture
def on_the_road() -> Iterator[None]:
    """Lines leave through the thread."""
    outbound.start(UPKEEP)
    yield
    if road._road is not None:  # the road of the process, which a test may have stopped itself
        outbound.stop(PATIENCE)


def hear(also=lambda record: None):
    return listening(also, name="durable.tests", level=logging.DEBUG)


@pytest.mark.usefixtures("on_the_road")
def test_a_handler_runs_on_the_thread_and_the_record_names_the_caller() -> None:
    ran: list[str] = []
    with hear(lambda record: ran.append(threading.current_thread().name)) as ear:
        logger.warning("order.lost")
        assert outbound.stop(PATIENCE)
    assert ran == ["durable-outbound"]
    assert ear.records[0].threadName == threading.current_thread().name


@pytest.mark.usefixtures("on_the_road")
def test_a_handler_that_blocks_holds_up_nobody_who_says_something(gate: Gate) -> None:
    with hear(blocking(gate)) as ear:
        for number in range(100):
            logger.info("order.found", number=number)
        gate.wait_for_arrival()
        assert len(ear.records) == 1, "the rest waits, and this thread has gone on"
        gate.open()
        assert outbound.stop(PATIENCE)
    assert [vars(record)["number"] for record in ear.records] == list(range(100))


@pytest.mark.usefixtures("on_the_road")
@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3), KeyboardInterrupt()])
def test_a_handler_that_raises_does_not_end_the_thread(error: BaseException) -> None:
    with hear(raising(error)) as ear:
        for _ in range(5):
            logger.warning("order.lost")
        assert outbound.stop(PATIENCE)
    assert len(ear.records) == 5


@pytest.mark.usefixtures("on_the_road")
def test_what_finds_no_room_is_counted_and_said_when_there_is_room(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(road, "CAPACITY", 10)
    with hear(blocking(gate)) as ear, listening(name="durable.outbound") as own:
        logger.info("order.found")
        gate.wait_for_arrival()
        for _ in range(25):
            logger.info("order.found")
        gate.open()
        assert outbound.stop(PATIENCE)
    assert len(ear.of("order.found")) == 11
    assert [record.getMessage() for record in own.records] == ["outbound.overflowed log_lines=15"]


def test_the_queue_holds_ten_thousand() -> None:
    assert outbound.CAPACITY == 10_000


@pytest.mark.usefixtures("on_the_road")
def test_a_handler_that_blocks_for_ever_does_not_keep_the_process_and_what_is_lost_is_counted(
    gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    with hear(blocking(gate)):
        for _ in range(8):
            logger.info("order.found")
        gate.wait_for_arrival()
        assert not outbound.stop(0.1)
        assert "durable: 8 log lines lost" in capsys.readouterr().err
        logger.info("too late")  # it would wait for the same lock
    gate.open()
    assert isinstance(road._left_behind, road._Road)  # a thread that a stop has given up shows nowhere else
    road._left_behind._thread.join(PATIENCE)  # whether it has ended shows nowhere else
    with hear() as ear:
        logger.info("it has come back")
    assert len(ear.records) == 1


def test_two_workers_of_one_process_share_the_thread_until_the_last_has_ended() -> None:
    outbound.start(UPKEEP)
    outbound.start(UPKEEP)
    assert outbound.stop(PATIENCE)
    ran: list[str] = []
    with hear(lambda record: ran.append(threading.current_thread().name)):
        logger.warning("order.lost")
        assert outbound.stop(PATIENCE)
        logger.warning("order.lost")
    assert ran == ["durable-outbound", threading.current_thread().name]


@pytest.mark.usefixtures("on_the_road")
def test_a_forked_process_has_no_thread_and_says_its_lines_itself() -> None:
    with hear() as ear:
        logger.warning("in the parent")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                ear.records.clear()
                logger.warning("in the child")
                code = 0 if [str(record.msg) for record in ear.records] == ["in the child"] else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert outbound.stop(PATIENCE)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.usefixtures("on_the_road")
def test_a_line_said_by_a_handler_leaves_after_those_that_wait() -> None:
    def also(record: logging.LogRecord) -> None:
        if record.msg == "first":
            logger.info("about the first")

    with hear(also) as ear:
        logger.info("first")
        logger.info("second")
        assert outbound.stop(PATIENCE)
    assert sorted(str(record.msg) for record in ear.records) == ["about the first", "first", "second"]


def test_what_is_held_leaves_when_it_is_released_and_only_then() -> None:
    with hear() as ear:
        with holding() as held:
            logger.warning("order.lost")
            assert ear.records == []
        assert ear.records == []
        outbound.release(held)
        assert len(ear.records) == 1


def test_what_is_held_inside_of_what_is_held_is_another_matter() -> None:
    with hear() as ear:
        with holding() as outer:
            with holding() as inner:
                logger.warning("inner")
            logger.warning("outer")
        outbound.release(outer)
        assert [str(record.msg) for record in ear.records] == ["outer"]
        outbound.release(inner)
    assert [str(record.msg) for record in ear.records] == ["outer", "inner"]


@pytest.mark.usefixtures("on_the_road")
@pytest.mark.parametrize("kind", sorted(hostile.ERRORS))
def test_whatever_error_a_handler_raises_the_thread_goes_on_and_a_bounded_sentence_is_said(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def raise_it(record: logging.LogRecord) -> None:
        raise hostile.made(kind)

    with hear(raise_it) as ear:
        for _ in range(3):
            logger.info("order.lost")
        assert outbound.stop(PATIENCE)
    assert len(ear.records) == 3
    assert len(capsys.readouterr().err) < 10_000


@pytest.mark.parametrize("kind", sorted(hostile.ERRORS.keys() - {"raises_KeyboardInterrupt"}))
def test_whatever_error_a_handler_raises_does_not_reach_who_says_something_without_a_thread(kind: str) -> None:
    raised: list[str] = []

    def raise_it(record: logging.LogRecord) -> None:
        raise hostile.made(kind)

    with hear(raise_it) as ear:
        try:
            logger.info("order.lost")
        except BaseException as error:  # pytest itself could not show it
            raised.append(type(error).__name__)
    assert len(ear.records) == 1
    assert raised == []


def test_whatever_the_upkeep_of_connections_raises_the_thread_goes_on() -> None:
    """Listeners of `connection_created` are the host's code."""

    def fall(*given: object) -> None:
        raise SystemExit

    outbound.start(Upkeep(before=fall, after=fall, idle=fall, overflowed=UPKEEP.overflowed))
    with hear() as ear:
        logger.warning("order.lost")
        logger.warning("order.lost")
        assert outbound.stop(PATIENCE)
    assert len(ear.records) == 2


def test_where_there_is_no_thread_nobody_counts_as_a_user_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next worker of this process would leave its last lines behind."""

    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        with pytest.raises(RuntimeError, match="new thread"):
            outbound.start(UPKEEP)
    outbound.start(UPKEEP)
    with hear() as ear:
        logger.warning("order.lost")
        assert outbound.stop(PATIENCE)
    assert len(ear.records) == 1
    assert road._road is None


class _Payload:
    """What a frame holds."""

    alive = 0

    def __init__(self) -> None:
        _Payload.alive += 1

    def __del__(self) -> None:
        _Payload.alive -= 1


@pytest.mark.usefixtures("on_the_road")
@pytest.mark.parametrize("by", ["engine", "workflow"])
def test_lines_that_wait_keep_the_frames_of_a_hundred_errors_and_the_text_of_the_rest(gate: Gate, by: str) -> None:
    """Ten thousand of them, with a megabyte in their frames, would take the process with them."""

    def fall() -> None:
        payload = _Payload()
        raise ValueError("a payload of", len(str(payload)) > 0)

    written: list[str] = []

    def write(record: logging.LogRecord) -> None:
        gate.pass_through()
        written.append(logging.Formatter().format(record))

    with hear(write) as ear:
        logger.info("the first one")
        gate.wait_for_arrival()
        for _ in range(1_000):
            try:
                fall()
            except ValueError as error:
                if by == "engine":
                    logger.info("order.lost", exc_info=error)
                else:
                    of_workflow_code.say(
                        of_workflow_code.made(
                            logging.getLogger("durable.tests"), logging.ERROR, "order.lost", exc_info=error
                        )
                    )
        gc.collect()
        assert _Payload.alive <= road.MOST_HEAVY
        gate.open()
        assert outbound.stop(PATIENCE)
    assert len(ear.records) == 1_001
    assert all("ValueError: ('a payload of', True)" in text and "in fall" in text for text in written[1:])


@pytest.mark.parametrize("by", ["the thread", "the caller"])
def test_a_handler_that_says_a_line_for_each_line_goes_round_five_times_and_stderr_says_so(
    by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a queue it would go round for ever, with a core of its own."""
    if by == "the thread":
        outbound.start(UPKEEP)
    with hear(lambda record: logger.info("about a line")) as ear:
        for _ in range(3):
            logger.info("order.found")
        if by == "the thread":
            assert outbound.stop(PATIENCE)
    assert len(ear.of("order.found")) == 3
    assert len(ear.of("about a line")) == 3 * departures.MOST_DEEP
    assert "log handlers say a line for each line that comes" in capsys.readouterr().err


def test_where_no_thread_may_stay_a_handler_that_blocks_holds_up_for_a_moment_and_once(
    gate: Gate, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(road, "_patience", None)  # what one test has set holds for the whole process
    outbound.wait_at_most(0.1)
    with hear(blocking(gate)) as ear:
        for _ in range(5):
            logger.info("order.found")
        assert len(ear.records) == 1
        assert outbound.is_blocked()
        assert "1 log line lost: what takes them did not return within 0.1 s." in capsys.readouterr().err
        gate.open()
        assert isinstance(road._left_behind, threading.Thread)
        road._left_behind.join(PATIENCE)
        assert not outbound.is_blocked()
        logger.info("it has come back")
    assert [str(record.msg) for record in ear.records] == ["order.found", "it has come back"]


def test_a_stop_too_many_takes_nothing_from_the_next_worker() -> None:
    assert outbound.stop(PATIENCE)
    outbound.start(UPKEEP)
    ran: list[str] = []
    with hear(lambda record: ran.append(threading.current_thread().name)):
        logger.warning("order.lost")
        assert outbound.stop(PATIENCE)
    assert ran == ["durable-outbound"]
    assert road._road is None
