"""`/metrics`, `/live` and `/ready` of workers: real processes, real scrapes, read as Prometheus reads them."""

from __future__ import annotations

import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from durable.flow.looks import measures
from durable.metrics import counting, series
from durable.metrics.counting import OTHER
from durable.models import OutboxRow
from durable.outcomes import Cause, OutboxStatus
from durable.worker.process import measuring
from durable.worker.process.measuring import Asker, SharedMeasures
from durable.worker.process.pages import Pages
from tests.factories import DeadLetterFactory, OutboxRowFactory, WorkflowFactory
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.health_port import ASKED, Port, answered, port, said_to
from tests.worker.launching import Launch, children, launch
from tests.worker.plant import activities, workflows
from tests.worker.processes import Pipes, code_of, free_port
from tests.worker.threads import until

__all__ = ["launch", "port"]

Values = dict[tuple[str, ...], float]
BOTH = pytest.mark.parametrize("processes", [[], ["--processes", "2"]], ids=["one", "two"])


def parsed(body: str) -> Values:
    """By name and values of labels, the labels in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }


def get(port: int, path: str) -> tuple[int, str, str]:
    """Status, content type and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as red:
        return red.code, red.headers["Content-Type"], red.read().decode()
    except OSError:
        return 0, "", ""


def scraped(port: int) -> Values:
    status, content_type, body = get(port, "/metrics")
    assert (status, content_type) in [(200, "text/plain; version=0.0.4; charset=utf-8"), (0, "")]
    return parsed(body)


def until_scraped(port: int, key: tuple[str, ...], wanted: float) -> Values:
    """Scrapes until a value is as wanted; fails with the last values."""
    latest: list[Values] = []

    def is_there() -> bool:
        latest[:] = [scraped(port)]
        return latest[0].get(key) == wanted

    try:
        until(is_there)
    except AssertionError:
        pytest.fail(f"{key} is never {wanted}: {latest}")
    return latest[0]


@BOTH
def test_a_worker_counts_what_it_does(plant: Plant, launch: Launch, processes: list[str]) -> None:
    for number in range(3):
        plant.start(workflows.three, f"m{number}")
    plant.enqueue(activities.fail, "secret-payload")
    port = free_port()
    process = launch("--health", f"127.0.0.1:{port}", *processes)
    until_scraped(port, ("durable_attempts_total", "plant.note_down", "completed"), 9)
    until_scraped(port, ("durable_attempts_total", "plant.fail", "failed"), 1)
    until_scraped(port, ("durable_attempts_total", "plant.fail", "retried"), 2)
    values = until_scraped(port, ("durable_worker_processes",), max(1, len(processes)))
    assert values["durable_attempt_duration_seconds_count", "plant.note_down"] == 9
    assert values["durable_turns_total",] >= 6
    assert values["durable_turn_batch_duration_seconds_count",] >= 2
    assert values["durable_commits_total",] >= 10
    assert values["durable_handler_slots",] == 4 * max(1, len(processes))
    until_scraped(port, ("durable_due", "default"), 0)
    body = get(port, "/metrics")[2]
    for leaked in (socket.gethostname(), str(port), "secret-payload", "127.0.0.1", str(plant)):
        assert leaked not in body
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0


@BOTH
def test_scrapes_say_what_waits_in_the_database(plant: Plant, launch: Launch, processes: list[str]) -> None:
    plant.enqueue(activities.note, "nobody serves it", queue="slow")
    DeadLetterFactory.create(activity="shop.charge", cause=Cause.WORKER_DIED.value)
    WorkflowFactory.create(blocked_reason="does not fit")
    port = free_port()
    launch("--health", f"127.0.0.1:{port}", "--queue", "default", *processes)
    values = until_scraped(port, ("durable_due", "slow"), 1)
    assert values["durable_dead_letters", "shop.charge", "worker_died"] == 1
    assert values["durable_blocked_workflows",] == 1
    assert values["durable_oldest_due_seconds", "slow"] > 0
    assert values["durable_database_asked_timestamp_seconds",] > 1_700_000_000


def test_what_a_child_has_counted_still_counts_when_it_has_died_and_another_one_asks(
    plant: Plant, launch: Launch
) -> None:
    plant.start(workflows.three, "first")
    port = free_port()
    process = launch("--health", f"127.0.0.1:{port}", "--processes", "2")
    key = ("durable_attempts_total", "plant.note_down", "completed")
    before = until_scraped(port, key, 3)
    until_scraped(port, ("durable_worker_processes",), 2)
    first, second = sorted(children(process.pid))
    os.kill(first, signal.SIGKILL)
    until(lambda: first not in children(process.pid))
    plant.start(workflows.three, "second")
    after = until_scraped(port, key, 6)
    assert after["durable_commits_total",] > before["durable_commits_total",]
    os.kill(second, signal.SIGKILL)
    plant.enqueue(activities.note, "x", queue="default")
    until_scraped(port, key, 7)


@BOTH
def test_live_and_ready(plant: Plant, launch: Launch, pipes: Callable[[str], Pipes], processes: list[str]) -> None:
    """A worker that stops takes no work, and no restart would mend that."""
    door = pipes("a")
    plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "a")
    port = free_port()
    process = launch("--health", f"127.0.0.1:{port}", *processes)
    until(lambda: get(port, "/ready")[0] == 200)
    assert get(port, "/live")[::2] == get(port, "/ready?verbose")[::2] == (200, "ok\n")
    door.wait_for_arrival()
    process.send_signal(signal.SIGTERM)
    until(lambda: get(port, "/ready")[0] == 503)
    assert "stopping" in get(port, "/ready")[2]
    assert get(port, "/live")[::2] == (200, "ok\n")
    door.let_go()
    assert code_of(process) == 0


@BOTH
def test_a_worker_without_a_database_lives_and_is_not_ready(
    plant: Plant, launch: Launch, tmp_path: Path, processes: list[str]
) -> None:
    port = free_port()
    nowhere = "/nowhere/db.sqlite3" if connection.vendor == "sqlite" else "/nowhere"
    launch("--health", f"127.0.0.1:{port}", *processes, PLANT_AWAY=nowhere)
    until(lambda: get(port, "/ready")[0] == 503)
    until(lambda: "database" in get(port, "/ready")[2])
    assert get(port, "/live")[0] == 200
    values = until_scraped(port, ("durable_handler_slots",), 4 * max(1, len(processes)))
    assert ("durable_due", "default") not in values


def test_without_the_extra_there_are_no_metrics_and_the_answer_says_what_to_install(
    plant: Plant, launch: Launch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'prometheus_client': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    plant.enqueue(activities.note, "x")
    port = free_port()
    launch("--health", f"127.0.0.1:{port}", PYTHONPATH=str(tmp_path))
    until(lambda: plant.labels() == ["x"])
    status, _, body = get(port, "/metrics")
    assert (status, body) == (404, 'There are no metrics: install "durable-django[metrics]" for this worker.\n')
    assert get(port, "/ready")[0] == get(port, "/live")[0] == 200


# --- the page, whoever asks, and however slowly it is read ---


def round_of(port: Port, pages: Pages) -> bool:
    """A round of the port with these pages. True."""
    port.socket.serve(port.look, pages)
    return True


def test_a_page_that_no_socket_takes_at_once_arrives_whole_and_holds_up_nobody(port: Port) -> None:
    page = b"durable_turns_total 1\n" * 400_000
    pages = Pages(metrics=lambda: ("text/plain", page))
    slow = port.call(b"GET /metrics HTTP/1.1\r\n\r\n")
    until(lambda: round_of(port, pages) and bool(port.socket.unsent()))
    other = port.call(ASKED)
    until(lambda: round_of(port, pages) and len(port.socket.filenos()) == 1)
    assert answered(other) == (200, "ok\n")
    slow.setblocking(False)
    got = bytearray()

    def is_whole() -> bool:
        port.socket.serve(port.look, pages)
        try:
            while piece := slow.recv(1 << 20):
                got.extend(piece)
        except BlockingIOError:
            return False
        return True

    until(is_whole)
    assert bytes(got).partition(b"\r\n\r\n")[2] == page


def test_a_page_that_is_not_read_in_time_is_given_up(port: Port) -> None:
    pages = Pages(metrics=lambda: ("text/plain", b"x" * 20_000_000))
    port.call(b"GET /metrics HTTP/1.1\r\n\r\n")
    until(lambda: round_of(port, pages) and bool(port.socket.unsent()))
    port.time.now += 5.0
    port.socket.serve(port.look, pages)
    assert port.socket.unsent() == []


def test_a_page_that_cannot_be_made_is_an_error_of_that_page_alone(
    port: Port, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> tuple[str, bytes]:
        raise ZeroDivisionError("10.0.0.7")

    caller = port.call(b"HEAD /metrics HTTP/1.1\r\n\r\n")
    until(lambda: round_of(port, Pages(metrics=broken)) and len(port.socket.filenos()) == 1)
    said = said_to(caller)
    assert said.startswith(b"HTTP/1.1 500 ")
    assert b"10.0.0.7" not in said
    assert "health_answer_failed" in caplog.text


def test_only_a_fault_that_a_restart_mends_makes_live_red(port: Port) -> None:
    port.reasons = ["the claim loop cannot reach the database"]
    faults: list[str] = []

    def reply(path: bytes) -> tuple[int, str]:
        caller = port.call(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        until(lambda: round_of(port, Pages(live=lambda: faults)) and len(port.socket.filenos()) == 1)
        return answered(caller)

    assert reply(b"/live") == (200, "ok\n")
    assert reply(b"/ready") == reply(b"/") == (503, "the claim loop cannot reach the database\n")
    faults.append("the turn loop is gone")
    assert reply(b"/live") == (503, "the turn loop is gone\n")
    caller = port.call(b"GET /live HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    until(lambda: round_of(port, Pages(live=lambda: faults)) and len(port.socket.filenos()) == 1)
    assert answered(caller) == (503, "not ok\n"), "and the reasons are for callers of this machine only"


# --- what is asked of the database ---


def test_the_database_is_asked_only_while_somebody_scrapes(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[float | None] = [None]
    asker = Asker(lambda: wanted[0])
    monkeypatch.setattr("durable.worker.process.measuring.time.monotonic", lambda: 1_000.0)
    with CaptureQueriesContext(connection) as statements:
        assert asker.step() == measuring.LOOK_EVERY
        wanted[0] = 1_000.0 - measuring.WANTED_FOR - 1
        assert asker.step() == measuring.LOOK_EVERY
    assert len(statements) == 0
    assert asker.latest is None
    wanted[0] = 1_000.0
    assert asker.step() == measuring.ASK_EVERY
    assert asker.latest is not None
    wanted[0] = None
    asker.step()
    assert asker.latest is None, "values that nobody refreshes are not shown"


def test_one_child_asks_and_another_one_when_it_is_gone() -> None:
    shared = SharedMeasures(3)
    shared.chosen([1, 2, 3])
    assert [shared.wanted_of(number) for number in (1, 2, 3)] == [None, None, None]
    shared.page()
    asks = [shared.wanted_of(number) is not None for number in (1, 2, 3)]
    assert asks == [True, False, False]
    shared.chosen([2, 3])
    assert [shared.wanted_of(number) is not None for number in (1, 2, 3)] == [False, True, False]


def test_values_of_the_database_take_seven_statements_however_much_there_is(plant: Plant) -> None:
    for number in range(20):
        OutboxRowFactory.create(queue=f"q{number}", activity=f"a{number}")
        DeadLetterFactory.create(activity=f"a{number}", cause=Cause.TIMEOUT.value)
    OutboxRow.objects.filter(queue="q3").update(
        status=OutboxStatus.CLAIMED.value, claimed_at=OutboxRowFactory().created_at
    )
    with CaptureQueriesContext(connection) as statements:
        values = measures.measure()
    assert len([one for one in statements.captured_queries if "durable_" in one["sql"]]) <= 8
    assert values[series.DUE.name, ("q7",)] == 1
    assert values[series.OUT.name, ("q3",)] == 1
    assert values[series.OUT.name, ("default",)] == 0
    assert values[series.DEAD_LETTERS.name, ("a5", "timeout")] == 1


def test_more_groups_than_there_is_room_for_are_counted_together(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "MOST_GROUPS", 2)
    for number in range(4):
        OutboxRowFactory.create(queue=f"q{number}")
        DeadLetterFactory.create(activity=f"a{number}", cause=Cause.TIMEOUT.value)
    OutboxRowFactory.create(queue="q3")
    values = measures.measure()
    due = {labels: value for (name, labels), value in values.items() if name == series.DUE.name and value}
    assert due == {("q3",): 2, ("q0",): 1, (OTHER,): 2}
    oldest = {labels for (name, labels), value in values.items() if name == series.OLDEST_DUE.name and value}
    assert oldest == {("q3",), ("q0",), (OTHER,)}
    dead = {labels: value for (name, labels), value in values.items() if name == series.DEAD_LETTERS.name}
    assert dead == {("a0", "timeout"): 1, ("a1", "timeout"): 1, (OTHER, OTHER): 2}


def test_counting_adds_no_statement(plant: Plant) -> None:
    """The same work, counted and not."""

    def statements() -> list[str]:
        from durable import testing

        plant.start(workflows.three, "s")
        with CaptureQueriesContext(connection) as caught:
            testing.drain()
        return [one["sql"].split()[0] for one in caught.captured_queries]

    statements()
    without = statements()
    counters = counting.begin()
    try:
        counted = statements()
    finally:
        counting.end()
    assert counted == without
    assert counters.read().counters[series.CACHE_HITS.name, ()] == 3
