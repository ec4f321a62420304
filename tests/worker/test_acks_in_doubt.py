"""Acknowledgements whose commit did not say how it went: what they had to say leaves once, or never if it failed."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from durable import signals
from durable.flow.delivery import acknowledge, claim, doubts
from durable.flow.turns import turn
from durable.flow.upkeep import reconcile
from durable.kernel.replay.cache import Cache
from durable.models import OutboxRow
from durable.outcomes import Completed, Ending, OutboxStatus, WorkflowStatus
from durable.worker.handlers.delivery import Delivery
from durable.worker.loops.acks import Acks
from tests.flow.state import expire
from tests.worker.benches import Bench
from tests.worker.conftest import Plant
from tests.worker.hearing import Ear, listening
from tests.worker.making import claim as claim_of
from tests.worker.plant import activities, workflows
from tests.worker.transactional_runs import run, take

LOST = "server closed the connection unexpectedly"


@pytest.fixture
def bench(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.fixture
def ear() -> Iterator[Ear]:
    doubts._doubts.clear()  # the doubts of a process outlive its tests
    with listening() as ear:
        yield ear
    assert doubts._doubts == {}, "Nothing stays in doubt."


class Commits:
    """Loses the reply of some commits of acknowledgements, or lets them fail."""

    def __init__(self, bench: Bench) -> None:
        self.made: Callable[[int], bool | None] = lambda number: None
        """By the number of the commit, from 1: whether it was made when the connection is lost; None: all is well."""
        self.number = 0
        self._wrapper = connections[connection.alias]
        self._commit = connection.commit
        bench.before = self._before

    def _before(self, endings: Sequence[Ending]) -> None:
        vars(self._wrapper)["commit"] = self._one

    def restore(self) -> None:
        vars(self._wrapper).pop("commit", None)

    def _one(self) -> None:
        self.restore()
        self.number += 1
        made = self.made(self.number)
        if made is not False:
            self._commit()
        if made is not None:
            raise OperationalError(LOST)


@pytest.fixture
def commits(bench: Bench) -> Iterator[Commits]:
    commits = Commits(bench)
    yield commits
    commits.restore()


@pytest.fixture
def sent() -> Iterator[Counter[str]]:
    """How often each signal about an end was sent."""
    counts: Counter[str] = Counter()
    watched = {
        "activity_failed": signals.activity_failed,
        "activity_dead_lettered": signals.activity_dead_lettered,
        "workflow_closed": signals.workflow_closed,
    }

    def count(name: str) -> Callable[..., None]:
        def receive(**_: Any) -> None:
            counts[name] += 1

        return receive

    receivers = {name: count(name) for name in watched}
    for name, signal in watched.items():
        signal.connect(receivers[name])
    yield counts
    for name, signal in watched.items():
        signal.disconnect(receivers[name])


def hold_when_exhausted() -> None:
    for row in OutboxRow.objects.all():
        row.options["on_exhausted"] = "hold"
        OutboxRow.objects.filter(pk=row.pk).update(options=row.options)


def begin(plant: Plant, kind: str) -> uuid.UUID:
    match kind:
        case "a result":
            return plant.enqueue(activities.note, "x")
        case "a failure of a workflow's":
            workflow_id = plant.start(workflows.lean, "x")
            cache = Cache(10)
            turn.turn(cache=cache, queues=None, limit=10, note=lambda owner: None)
            cache.drop_all()
            OutboxRow.objects.update(attempts=2)
            return workflow_id
        case "an attempt":
            return plant.enqueue(activities.fail, "x")
        case _:
            workflow_id = plant.enqueue(activities.fail, "x", budget=1)
            if kind == "a dead letter":
                hold_when_exhausted()
            return workflow_id


ATTEMPT = [("WARNING", "activity.attempt_failed")]
FAILED = [("ERROR", "activity.failed")]
KINDS: dict[str, tuple[list[tuple[str, str]], dict[str, int]]] = {
    "a result": ([], {"workflow_closed": 1}),
    "an attempt": (ATTEMPT, {}),
    "a failure": (FAILED, {"activity_failed": 1, "workflow_closed": 1}),
    "a failure of a workflow's": (FAILED, {"activity_failed": 1}),
    "a dead letter": ([("ERROR", "activity.dead_lettered")], {"activity_dead_lettered": 1}),
}
TROUBLE = ("WARNING", "acknowledgement_failed")


@pytest.mark.parametrize("made", [True, False], ids=["committed", "not committed"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_commit_in_doubt_had_to_say_is_said_once(
    plant: Plant, bench: Bench, commits: Commits, ear: Ear, sent: Counter[str], kind: str, made: bool
) -> None:
    """Whichever it is: by the try that was committed and lost, or by the one after it."""
    begin(plant, kind)
    commits.made = lambda number: made if number == 1 else None
    bench.deliver(bench.claim())
    lines, signalled = KINDS[kind]
    assert ear.said() == [TROUBLE, *lines]
    assert dict(sent) == signalled
    assert len(ear.of("acknowledgement_found")) == (1 if made else 0)
    assert len(bench.calls) == 2
    assert len(bench.acknowledged) == 1


@pytest.mark.parametrize("made", [True, False], ids=["committed", "not committed"])
def test_of_a_batch_in_doubt_each_says_its_own_once(
    plant: Plant, bench: Bench, commits: Commits, ear: Ear, sent: Counter[str], made: bool
) -> None:
    for kind in ("a result", "an attempt", "a failure", "a result"):
        begin(plant, kind)
    commits.made = lambda number: made if number == 1 else None
    bench.deliver(bench.claim())
    assert sorted(ear.said()) == sorted([TROUBLE, *ATTEMPT, *FAILED])
    assert dict(sent) == {"activity_failed": 1, "workflow_closed": 3}


def test_the_last_try_may_be_the_one_that_was_committed(
    plant: Plant, bench: Bench, commits: Commits, ear: Ear, sent: Counter[str]
) -> None:
    """The abandonment finds nothing (specification A4), and what is there is said."""
    workflow_id = begin(plant, "a failure")
    commits.made = lambda number: number == 5
    bench.deliver(bench.claim())
    assert ear.said() == [TROUBLE, *FAILED]
    assert sent["activity_failed"] == 1
    assert plant.row(workflow_id).status == OutboxStatus.DONE.value


def test_a_second_commit_in_doubt_does_not_silence_the_first(
    plant: Plant, bench: Bench, commits: Commits, ear: Ear, sent: Counter[str]
) -> None:
    """The first one was made; the second one found nothing to write, and its reply was lost as well."""
    begin(plant, "a failure")
    commits.made = lambda number: True if number < 3 else None
    bench.deliver(bench.claim())
    assert ear.said() == [TROUBLE, *FAILED]
    assert sent["activity_failed"] == 1


def test_what_was_given_back_is_in_doubt_no_more(plant: Plant, bench: Bench, commits: Commits, ear: Ear) -> None:
    """No try was made: with its results and errors it would stay in memory (the fixture looks)."""
    workflow_id = begin(plant, "a failure")
    commits.made = lambda number: False
    bench.deliver(bench.claim())
    assert plant.row(workflow_id).cause == "ack_abandoned"


def test_a_late_one_is_late_beside_neighbours_that_were_written(
    plant: Plant, bench: Bench, commits: Commits, ear: Ear
) -> None:
    """That its neighbours' commit is found says nothing about it."""
    for kind in ("a result", "a result"):
        begin(plant, kind)
    late, good = bench.claim()
    expire(late)
    reconcile.reconcile()
    commits.made = lambda number: True if number == 1 else None
    bench.deliver([late, good])
    assert [str(vars(line)["workflow"]) for line in ear.of("late_acknowledgement")] == [str(late.workflow_id)]
    assert [str(vars(line)["workflow"]) for line in ear.of("acknowledgement_found")] == [str(good.workflow_id)]


def test_what_somebody_else_has_made_is_not_said_as_ones_own(
    plant: Plant, bench: Bench, commits: Commits, ear: Ear, sent: Counter[str]
) -> None:
    """The commit was not made; then the delivery was taken over, and ended well elsewhere."""
    workflow_id = begin(plant, "a failure")
    [mine] = bench.claim()
    real = acknowledge.acknowledge

    def taken_over() -> None:
        expire(mine)
        reconcile.reconcile()
        OutboxRow.objects.update(visible_after="2020-01-01 00:00:00+00:00")
        [theirs] = claim.claim_suspect(worker="other", queues=None, lease_for=timedelta(minutes=1))
        bench.before = lambda endings: None
        assert theirs.delivery == mine.delivery + 1
        real([Completed(theirs, '"well"')])

    commits.made = lambda number: False if number == 1 else None
    bench.time.during_wait = taken_over
    bench.deliver([mine])
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED
    assert ("ERROR", "activity.failed") not in ear.said()
    assert ("WARNING", "late_acknowledgement") in ear.said()
    assert dict(sent) == {"workflow_closed": 1}


def test_doubts_without_end_are_forgotten_from_the_oldest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever acknowledges by hand may never ask again."""
    monkeypatch.setattr(doubts, "MOST", 3)
    claims = [claim_of(number) for number in range(5)]
    for one in claims:
        commit = doubts.Written()
        commit.wrote([Completed(one, "1")])
        doubts.keep(commit)
    assert [doubts.pop(one) is not None for one in claims] == [False, False, True, True, True]


def test_a_delivery_that_was_lost_is_late_as_ever(plant: Plant, bench: Bench, ear: Ear) -> None:
    begin(plant, "a failure")
    [mine] = bench.claim()
    expire(mine)
    reconcile.reconcile()
    bench.deliver([mine])
    assert [said for said in ear.said() if "acknowledgement" in said[1]] == [("WARNING", "late_acknowledgement")]


def test_a_transactional_commit_in_doubt_is_found_as_well(plant: Plant, ear: Ear, sent: Counter[str]) -> None:
    """The handler does not run again (specification A6), its end is signalled, and nobody calls it late."""
    workflow_id = plant.enqueue(activities.write_once, "t")
    taken = take()
    wrapper, commit = connections[connection.alias], connection.commit

    def committed_and_lost() -> None:
        del vars(wrapper)["commit"]
        commit()
        raise OperationalError(LOST)

    vars(wrapper)["commit"] = committed_and_lost
    outcome = run(taken, [])
    acks = Acks(ended=lambda delivery, outcome: None)
    acks.submit(Delivery(taken), outcome)
    acks.finish(0)
    acks.run()
    assert plant.labels() == ["t"]
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED
    assert dict(sent) == {"workflow_closed": 1}
    assert ear.said() == [("WARNING", "transactional_try_failed")]
