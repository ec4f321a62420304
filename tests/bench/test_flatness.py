"""Whether a process has stopped growing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from durable.bench.flatness import Course, Sample, judge


def _course(mib: Sequence[float], connections: Sequence[int] = (9,) * 10, done: int = 1) -> Course:
    samples = [Sample(float(at), size, count) for at, (size, count) in enumerate(zip(mib, connections, strict=True))]
    return Course("worker", samples, done)


FLAT = [40.0, 55.0, 60.0, 60.5, 60.2, 60.9, 60.1, 60.4, 60.3, 60.8]


def test_a_process_that_grows_in_its_warm_up_only_is_flat() -> None:
    """Faults J10."""
    report = judge(_course(FLAT))
    assert report.faults == []
    assert (report.begun_mib, report.warm_mib, report.end_mib, report.most_mib) == (40.0, 60.25, 60.55, 60.9)


@pytest.mark.parametrize("connections", [[2, 9, 9, 9, 9, 9, 9, 9, 9, 9], [30, 1, 9, 9, 9, 9, 9, 9, 9, 9]])
def test_connections_that_are_opened_in_the_warm_up_are_constant_behind_it(connections) -> None:
    assert judge(_course(FLAT, connections)).faults == []


@pytest.mark.parametrize(
    ("mib", "connections", "done", "fault"),
    [
        ([40, 55, *[60 + 1.5 * step for step in range(8)]], [9] * 10, 1, "memory grew by 9.0 MiB, more than 5"),
        (FLAT, [9] * 9 + [10], 1, "connections were not constant: 9 to 10"),
        (FLAT, [9] * 5 + [8] + [9] * 4, 1, "connections were not constant: 8 to 9"),
        (FLAT, [0] * 10, 1, "no connection was seen"),
        (FLAT, [9] * 10, 0, "it did nothing"),
    ],
)
def test_each_reason_why_a_worker_is_not_flat_is_said(mib, connections, done, fault) -> None:
    assert judge(_course(mib, connections, done)).faults == [fault]


def test_one_look_at_a_peak_is_no_growth() -> None:
    """Medians: a worker that takes a large payload at the moment of a look gives it back."""
    peaks = [*FLAT[:-1], 900.0]
    assert judge(_course([*FLAT[:8], 60.0, 60.0, *peaks[8:], 60.0, 60.0, 60.0], [9] * 15)).faults == []
