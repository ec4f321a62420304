"""Room that turns reserve: nobody sleeps past it, and nothing starts beside what is in doubt (ADR 012)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from durable.flow.turns import turn as turning
from durable.flow.turns.room import Room
from durable.kernel.replay.cache import Cache
from durable.outcomes import Claim, TurnReport
from durable.worker.loops import claims as claims_module
from durable.worker.loops.claims import WAIT_FOR_RING
from durable.worker.loops.turns import Turns
from durable.worker.threads.wakeup import Pace, Wake
from tests.worker.floors import Floor
from tests.worker.making import claim

Turning = Callable[[Any], TurnReport]


class Stage(Floor):
    """The same floor with a turn loop, whose turns do what the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.bell = Wake()
        self.plays: list[Turning] = []
        monkeypatch.setattr(turning, "turn", lambda *, staged_claims, **rest: self.plays.pop(0)(staged_claims))
        note: Any = lambda: None  # noqa: E731
        self.turns = Turns(
            queues=None,
            cache=Cache(10),
            note=note,
            staged=self.bell.ring,
            claims=self.claims,
            pace=Pace(self.leases._lease_for),  # as the worker does, which knows it without asking
            ready=lambda: True,
        )

    def turn(self, play: Turning) -> None:
        self.plays.append(play)
        self.turns.step()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = Stage(monkeypatch)
    stage.look()
    return stage


def report(*taken: Claim) -> TurnReport:
    return TurnReport(workflows=1, staged=len(taken), claimed=taken)


def test_a_claim_that_found_no_room_for_the_sake_of_a_turn_is_made_up_for_when_the_turn_ends(stage: Stage) -> None:
    """The handler of what was taken may run for an hour, and no other is there to ring when it ends."""

    def meanwhile(staged_claims: Any) -> TurnReport:
        assert staged_claims.room.reserve() == 3
        stage.ordinary = [claim(1)]
        assert stage.claims.step() == WAIT_FOR_RING
        assert stage.running() == []
        return report(claim(7))

    stage.turn(meanwhile)
    assert stage.bell.rung
    stage.claims.step()
    assert stage.running() == [7, 1]


def test_a_turn_that_failed_makes_up_for_it_as_well(stage: Stage) -> None:
    def meanwhile(staged_claims: Any) -> TurnReport:
        assert staged_claims.room.reserve() == 3
        assert stage.claims.step() == WAIT_FOR_RING
        raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="full"):
        stage.turn(meanwhile)
    assert stage.bell.rung


def test_a_turn_that_kept_nobody_waiting_rings_for_nothing(stage: Stage) -> None:
    def quiet(staged_claims: Any) -> TurnReport:
        assert staged_claims.room.reserve() == 3
        return report(claim(7))

    stage.turn(quiet)
    assert not stage.bell.rung


def test_a_reservation_ends_while_no_claim_looks_at_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that has found no room for it, and then that there is none, would be woken by nobody."""
    looks: list[bool] = []
    release = Room.release

    def watched(room: Room) -> bool:
        # The lock is private: nothing else shows at this moment whether another thread may be within a look.
        other = threading.Thread(target=lambda: looks.append(stage.claims._lock.acquire(blocking=False)))
        other.start()
        other.join()
        return release(room)

    monkeypatch.setattr(Room, "release", watched)
    stage.turn(lambda staged_claims: report())
    assert looks == [False]


def test_what_may_have_been_taken_keeps_its_room_until_it_is_known(stage: Stage) -> None:
    """Specification B7: a suspect that starts meanwhile would not be alone. And a burst is not over."""

    def lost(staged_claims: Any) -> TurnReport:
        assert staged_claims.room.reserve() == 3
        staged_claims.about_to_commit()
        raise ValueError("the connection went away with the commit")

    def found(staged_claims: Any) -> TurnReport:
        staged_claims.confirmed()
        return TurnReport(claimed=(claim(7),))

    with pytest.raises(ValueError, match="went away"):
        stage.turn(lost)
    assert stage.claims.in_claim
    stage.suspects = [claim(101, suspect=True)]
    stage.claims.suspects_due()
    stage.claims.step()
    assert stage.running() == []
    stage.turn(found)
    assert stage.bell.rung, "Others of its rows may be pending."
    stage.claims.step()
    assert stage.running() == [7]
    stage.end(7)
    stage.claims.step()
    assert stage.running() == [101]


def test_a_stop_does_not_wait_for_what_stays_in_doubt(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks once what became of it."""
    asked: list[Any] = []

    def nothing_yet(staged_claims: Any) -> list[Claim]:
        asked.append(staged_claims)
        return []

    monkeypatch.setattr("durable.flow.turns.turn.claimed_in_doubt", nothing_yet)

    def lost(staged_claims: Any) -> TurnReport:
        assert staged_claims.room.reserve() == 3
        staged_claims.about_to_commit()
        raise ValueError("the connection went away with the commit")

    with pytest.raises(ValueError, match="went away"):
        stage.turn(lost)
    stage.turns.close()
    assert len(asked) == 1
    assert not stage.claims.in_claim


def test_what_a_turn_has_taken_ahead_has_its_time_to_begin(stage: Stage) -> None:
    """The last claim of an idle worker is long ago: that says nothing about what has only just been taken."""
    stage.slots.ahead = 2
    stage.now += 100
    stage.look()
    numbers = itertools.count(1)

    def many(staged_claims: Any) -> TurnReport:
        return report(*[claim(next(numbers)) for _ in range(staged_claims.room.reserve())])

    stage.turn(many)
    assert stage.slots.waiting == 2
    stage.claims.step()
    assert stage.released == []
    stage.now += claims_module.NOT_BEGUN_FOR
    stage.claims.step()
    assert stage.released == [4, 5]


def test_what_is_claimed_while_a_turn_runs_its_code_is_not_offered_to_it_any_more(stage: Stage) -> None:
    """The number that it was told before is not the one that it finds."""
    room = stage.claims.staged_claims().room
    stage.claims.offer()
    stage.ordinary = [claim(1), claim(2)]
    stage.claims.step()
    assert room.reserve() == 1


def test_a_suspect_waits_for_what_a_turn_is_about_to_bring(stage: Stage) -> None:
    """Specification B7, from the other side."""
    assert stage.reserve() == 3
    stage.suspects = [claim(101, suspect=True)]
    stage.claims.suspects_due()
    stage.claims.step()
    assert stage.running() == []
    stage.claims.receive([claim(7)])
    stage.claims.step()
    assert stage.running() == [7]
    stage.end(7)
    stage.claims.step()
    assert stage.running() == [101]
