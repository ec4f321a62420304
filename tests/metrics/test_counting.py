"""What a process counts, how processes share it, and the text that comes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from durable.metrics import counting, readings, series, shared, text
from durable.metrics.readings import Readings
from tests.conftest import ROOT
from tests.waiting import Barrier, in_thread

PATIENCE = 60


@pytest.fixture
def counters() -> Iterator[counting.Counters]:
    yield counting.begin()
    counting.end()


def samples(values: Readings) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """As Prometheus reads them."""
    _, body = text.rendered(values)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_nothing_is_counted_until_somebody_wants_it() -> None:
    counting.add(series.TURNS)
    counting.observe(series.TURN_SECONDS, 1.0)
    assert counting.begin().read().counters[series.TURNS.name, ()] == 0
    counting.end()


def test_threads_that_count_at_the_same_time_lose_nothing(counters: counting.Counters) -> None:
    meeting = Barrier(4)

    def count() -> None:
        meeting.wait()
        for _ in range(5_000):
            counting.add(series.ATTEMPTS, "a", "completed")
            counting.observe(series.ATTEMPT_SECONDS, 0.25, "a")

    for future in [in_thread(count) for _ in range(4)]:
        future.result(PATIENCE)
    values = counters.read()
    assert values.counters[series.ATTEMPTS.name, ("a", "completed")] == 20_000
    assert sum(values.histograms[series.ATTEMPT_SECONDS.name, ("a",)][:-1]) == 20_000


def test_more_names_than_there_is_room_for_are_counted_together(
    counters: counting.Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MOST_NAMES", 2)
    for name in ("one", "two", "three", "four", "two"):
        counting.add(series.ATTEMPTS, name, "failed")
        counting.observe(series.ATTEMPT_SECONDS, 1.0, name)
    found = {labels: value for (name, labels), value in counters.read().counters.items() if labels}
    assert found == {("one", "failed"): 1, ("two", "failed"): 2, (counting.OTHER, "failed"): 2}
    assert {labels for _, labels in counters.read().histograms} == {("one",), ("two",), (counting.OTHER,)}


def test_durations_are_in_the_bucket_whose_bound_they_do_not_exceed(counters: counting.Counters) -> None:
    for seconds in (0.005, 0.0051, 4_000.0):
        counting.observe(series.ATTEMPT_SECONDS, seconds, "shop.charge")
    found = samples(counters.read())

    def bucket(bound: str) -> float:
        return found["durable_attempt_duration_seconds_bucket", (("activity", "shop.charge"), ("le", bound))]

    assert [bucket(bound) for bound in ("0.005", "0.01", "3600.0", "+Inf")] == [1, 2, 2, 3]
    assert found["durable_attempt_duration_seconds_count", (("activity", "shop.charge"),)] == 3
    assert found["durable_attempt_duration_seconds_sum", (("activity", "shop.charge"),)] == pytest.approx(4_000.0101)


def test_odd_names_reach_prometheus_as_they_are(counters: counting.Counters) -> None:
    odd = 'ä "quoted"\\ {x="1"}\n# TYPE x counter'
    counting.add(series.ATTEMPTS, odd, "failed")
    assert samples(counters.read())["durable_attempts_total", (("activity", odd), ("result", "failed"))] == 1


def test_the_values_of_processes_are_added_and_the_latest_look_at_the_database_counts() -> None:
    older = Readings({("c", ()): 1}, {("h", ()): [1, 0, 2.0]}, {("g", ()): 3}, {("d", ()): 7}, 10.0)
    newer = Readings({("c", ()): 2}, {("h", ()): [0, 1, 3.0]}, {("g", ()): 4}, {("d", ()): 8}, 11.0)
    both = Readings({("c", ()): 3}, {("h", ()): [1, 1, 5.0]}, {("g", ()): 7}, {("d", ()): 8}, 11.0)
    assert readings.together([older, newer]) == readings.together([newer, older]) == both
    assert readings.together([older.lasting, newer]).gauges == {("g", ()): 4}


# --- shared memory ---


def some(number: int) -> Readings:
    return Readings(counters={("durable_turns", ("ä\ud800",)): number}, gauges={("g", ()): number})


def test_another_process_reads_what_this_one_has_written() -> None:
    segment = shared.Segment()
    assert segment.read() is None
    child = os.fork()
    if not child:
        segment.write(some(1))
        segment.write(some(2))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    found = segment.read()
    assert found is not None
    assert found.gauges == {("g", ()): 2}
    segment.clear()
    assert segment.read() is None


def test_a_writer_that_dies_in_the_middle_leaves_what_was_there_before() -> None:
    segment = shared.Segment()
    segment.write(some(1))
    whole = segment._map[0]  # a death between two bytes of one write cannot be brought about from outside
    segment.write(some(2))
    # as above
    half = 1 + segment._map[0] * segment._half
    segment._map[half + 12] ^= 1  # only a part of the second one came
    assert segment.read() is None, "torn values are no values"
    segment._map[0] = whole  # the index is written last, so that nobody gets there
    found = segment.read()
    assert found is not None
    assert found.gauges == {("g", ()): 1}


def test_values_that_do_not_fit_leave_the_ones_before() -> None:
    segment = shared.Segment(largest=200)
    assert segment.write(some(1))
    assert not segment.write(Readings(gauges={("g", ("x" * 200,)): 2}))
    found = segment.read()
    assert found is not None
    assert found.gauges == {("g", ()): 1}


def test_the_longest_names_fit(counters: counting.Counters) -> None:
    """600 bytes is the limit of a name of an activity."""
    for number in range(counting.MOST_NAMES + 10):
        name = f"{number:04}" + "ä" * 298
        for result in ("completed", "failed", "retried", "cancelled", "not_acknowledged"):
            counting.add(series.ATTEMPTS, name, result, by=123_456.0)
        counting.observe(series.ATTEMPT_SECONDS, 1234.5678901234, name)
    assert shared.Segment().write(counters.read())


# --- without the extra ---


def test_a_worker_imports_no_client_before_the_first_scrape_and_none_without_health() -> None:
    code = (
        "import sys, django; from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'durable'],"
        " DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}); django.setup()\n"
        "from durable.management.commands import runworker\n"
        "print(*sorted(n for n in sys.modules if n.split('.')[0] in ('prometheus_client', 'opentelemetry')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
