"""What a worker says it has done is what it has acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from durable.flow.delivery import acknowledge, release
from durable.outcomes import AckOutcome, Ending
from tests.worker.conftest import Plant
from tests.worker.plant import activities

real = acknowledge.acknowledge


def late(endings: Sequence[Ending]) -> list[AckOutcome]:
    release.release([ending.claim for ending in endings])
    return real(endings)


def refused(endings: Sequence[Ending]) -> list[AckOutcome]:
    raise ValueError("it cannot be written")


@pytest.mark.parametrize("first", [late, refused], ids=lambda first: first.__name__)
def test_a_result_that_was_not_acknowledged_is_not_counted_as_done(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, first: Callable[[Sequence[Ending]], list[AckOutcome]]
) -> None:
    acknowledged: list[Ending] = []
    lost: list[Ending] = []

    def unlucky(endings: Sequence[Ending]) -> list[AckOutcome]:
        if not lost:
            lost.extend(endings)
            return first(endings)
        outcomes = real(endings)
        acknowledged.extend(e for e, made in zip(endings, outcomes, strict=True) if made is AckOutcome.ACKNOWLEDGED)
        return outcomes

    monkeypatch.setattr(acknowledge, "acknowledge", unlucky)
    plant.enqueue(activities.add, 2, 2)
    worker = plant.burst()
    assert len(lost) == 1
    assert worker.tally.done == len(acknowledged)
