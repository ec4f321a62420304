"""Notes, deadlines, pools, health and reports, each by itself."""

from __future__ import annotations

import fcntl
import os
import threading
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from durable.errors import ConfigurationError
from durable.flow.delivery import renew
from durable.outcomes import Renewal
from durable.worker.handlers.deadlines import Deadlines
from durable.worker.handlers.delivery import Conclusion, Delivery, Start
from durable.worker.handlers.pool import HandlerPool
from durable.worker.loops import notes
from durable.worker.loops.leases import Leases
from durable.worker.loops.notes import Note
from durable.worker.process.health import HealthSocket, parse_address
from durable.worker.process.reports import Report, Reporter, State, read
from durable.worker.threads.loop import Pulse
from durable.worker.threads.wakeup import Wake
from tests.waiting import PATIENCE, Gate
from tests.worker.making import delivery
from tests.worker.threads import until

WORKFLOW = uuid.UUID(int=7)


def dead(note: Note) -> None:
    """What the death of the owner leaves behind: the file, and no lock."""
    note._map.close()  # as the kernel closes it when a process dies
    os.close(note._file)  # as the kernel closes it when a process dies


def counted(folder: Path) -> list[uuid.UUID]:
    seen: list[uuid.UUID] = []

    def count(workflow_id: uuid.UUID) -> bool:
        seen.append(workflow_id)
        return True

    assert notes.count_the_dead(folder, count) == seen
    return seen


def test_a_note_of_a_dead_owner_is_counted_once_and_removed(tmp_path: Path) -> None:
    note = Note(tmp_path)
    note.write(WORKFLOW)
    dead(note)
    assert counted(tmp_path) == [WORKFLOW]
    assert counted(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_note_of_a_living_owner_is_left_alone(tmp_path: Path) -> None:
    note = Note(tmp_path)
    note.write(WORKFLOW)
    assert counted(tmp_path) == []
    note.close()
    assert list(tmp_path.iterdir()) == []


def test_an_owner_that_died_between_turns_left_nothing_to_count(tmp_path: Path) -> None:
    note = Note(tmp_path)
    note.write(WORKFLOW)
    note.write(None)
    dead(note)
    assert counted(tmp_path) == []


def test_a_note_that_could_not_be_counted_stays(tmp_path: Path) -> None:
    note = Note(tmp_path)
    note.write(WORKFLOW)
    dead(note)

    def away(workflow_id: uuid.UUID) -> bool:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        notes.count_the_dead(tmp_path, away)
    assert counted(tmp_path) == [WORKFLOW]


def test_a_note_of_a_workflow_that_somebody_holds_stays_and_keeps_no_other_from_being_counted(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        note = Note(tmp_path)
        note.write(uuid.UUID(int=number))
        dead(note)
    held = uuid.UUID(int=2)
    assert set(notes.count_the_dead(tmp_path, lambda workflow_id: workflow_id != held)) == {
        uuid.UUID(int=1),
        uuid.UUID(int=3),
    }
    assert counted(tmp_path) == [held]


def test_a_note_that_another_process_is_counting_is_left_to_it(tmp_path: Path) -> None:
    note = Note(tmp_path)
    note.write(WORKFLOW)
    dead(note)
    with note.path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert counted(tmp_path) == []


def test_the_first_verdict_about_a_delivery_wins() -> None:
    one = delivery()
    assert one.begin() is Start.GO
    assert one.conclude() is Conclusion.FIRST
    assert one.conclude() is Conclusion.LATE
    assert one.begin() is Start.OVER


def test_a_token_that_the_handlers_own_commit_removed_is_no_lost_lease(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A renewal that meets a transactional delivery between its commit and its end leaves it alone, in silence."""
    monkeypatch.setattr(renew, "renew", lambda held, *, lease_for: [Renewal.LOST for _ in held])
    leases = Leases(lease_for=timedelta(minutes=1), idle=Wake())
    committing, lost = delivery(row_id=1), delivery(row_id=2)
    committing.may_be_committed = True
    leases.hold([committing, lost])
    leases.beat()
    assert leases.all() == [committing]
    assert (committing.concluded, lost.concluded) == (False, True)
    assert caplog.text.count("lease_lost") == 1


def test_a_delivery_cancelled_while_it_waits_does_not_start() -> None:
    one = delivery()
    one.ask_to_stop()
    assert one.begin() is Start.CANCELLED


def test_a_handler_that_comes_after_the_cancellation_is_told_at_once() -> None:
    told: list[None] = []
    one = delivery()
    one.ask_to_stop()
    one.interrupt_with(lambda: told.append(None))
    one.ask_to_stop()
    assert len(told) == 1


def test_deadlines_call_for_those_without_a_verdict_only() -> None:
    overran: list[int] = []
    last = threading.Event()
    deadlines = Deadlines()
    concluded, late = delivery(1), delivery(2)
    concluded.conclude()
    deadlines.watch(concluded, timedelta(microseconds=1), lambda: overran.append(1))

    def overrun() -> None:
        overran.append(2)
        last.set()

    deadlines.watch(late, timedelta(milliseconds=1), overrun)
    assert last.wait(PATIENCE)
    deadlines.stop()
    assert overran == [2]


def test_what_ended_long_before_its_time_is_not_kept() -> None:
    deadlines = Deadlines()
    for row in range(5000):
        one = delivery(row)
        deadlines.watch(one, timedelta(hours=1), lambda: None)
        one.conclude()
    assert len(deadlines._heap) < 1000  # entries that count no more may pile up unseen
    deadlines.stop()


def test_a_replaced_thread_leaves_the_pool_at_full_size(gate: Gate) -> None:
    done: list[int] = []
    finished = threading.Event()

    def work(one: Delivery) -> None:
        if one.claim.row_id <= 2:
            gate.pass_through()
        else:
            done.append(one.claim.row_id)
            finished.set()

    pool = HandlerPool(2, work=work)
    stuck = [delivery(1), delivery(2)]
    for one in stuck:
        pool.submit(one)
    gate.wait_for_arrival(2)
    pool.submit(delivery(3))
    pool.replace(stuck[0])
    assert finished.wait(PATIENCE)
    assert done == [3]
    assert pool.threads == 2
    gate.open()
    pool.close(PATIENCE)


def test_a_pool_makes_no_more_threads_than_it_has_places() -> None:
    seen: set[int] = set()
    left = threading.Semaphore(0)

    def work(one: Delivery) -> None:
        seen.add(threading.get_ident())
        left.release()

    pool = HandlerPool(3, work=work)
    for row in range(100):
        pool.submit(delivery(row))
    for _ in range(100):
        assert left.acquire(timeout=PATIENCE)
    assert len(seen) <= 3
    pool.close(PATIENCE)
    until(lambda: pool.threads == 0)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), (":9000", ("0.0.0.0", 9000)), ("[::1]:7", ("::1", 7))],
)
def test_addresses(text: str, parsed: tuple[str, int]) -> None:
    assert parse_address(text) == parsed


@pytest.mark.parametrize("text", ["localhost", "a:b", ":70000", ""])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match="ADDRESS:PORT"):
        parse_address(text)


def test_a_port_that_is_taken_is_said() -> None:
    first = HealthSocket("127.0.0.1", 0)
    with pytest.raises(ConfigurationError, match="cannot listen"):
        HealthSocket("127.0.0.1", first.port)
    first.close()


def test_reports_travel_and_a_reader_that_is_gone_is_no_trouble() -> None:
    inner, outer = os.pipe()
    os.set_blocking(inner, False)
    assert read(inner) == []
    reporter = Reporter(outer)
    reporter.tell(Report(State.WELL, ""))
    reporter.tell(Report(State.RED, "stuck\nfor long"))
    assert read(inner) == [Report(State.WELL, ""), Report(State.RED, "stuck for long")]
    os.close(inner)
    reporter.tell(Report(State.WELL, ""))
    os.close(outer)


def test_a_pulse_complains_about_trouble_and_about_being_stuck() -> None:
    pulse = Pulse("claim")
    assert pulse.complaint(stuck_after=10) == ""
    pulse.begin()
    assert "stuck" in pulse.complaint(stuck_after=-1)
    pulse.end()
    pulse.fail("refused")
    assert "cannot reach the database: refused" in pulse.complaint(stuck_after=10)
    pulse.recover()
    assert pulse.complaint(stuck_after=-1) == ""


def test_a_pulse_tells_a_bug_from_a_database_that_does_not_answer() -> None:
    pulse = Pulse("claim")
    pulse.fail("KeyError: 'a'", is_bug=True)
    assert pulse.complaint(stuck_after=10) == "the claim loop fails because of a bug of the engine: KeyError: 'a'"
    pulse.fail("refused")
    assert "cannot reach the database: refused" in pulse.complaint(stuck_after=10)
