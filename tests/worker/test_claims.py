"""When the claim loop claims what (specification B7: suspects are delivered alone)."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from django.db import OperationalError

from durable.flow.delivery import release as releasing
from durable.outcomes import Claim
from durable.worker.handlers.delivery import Start
from durable.worker.loops import claims as claims_module
from tests.worker.floors import Floor
from tests.worker.making import claim


@pytest.fixture
def floor(monkeypatch: pytest.MonkeyPatch) -> Floor:
    return Floor(monkeypatch)


def test_the_claim_loop_claims_at_most_what_can_start(floor: Floor) -> None:
    floor.ordinary = [claim(row) for row in range(1, 6)]
    floor.claims.step()
    assert floor.running() == [1, 2, 3]
    assert floor.claims.step() > 0
    assert floor.limits == [3]
    floor.end(2)
    floor.claims.step()
    assert floor.limits == [3, 1]


def test_quick_handlers_have_more_claimed_ahead_in_batches(floor: Floor) -> None:
    floor.ordinary = [claim(row) for row in range(1, 30)]
    floor.slots.ahead = 4
    floor.claims.step()
    assert floor.limits == [7]
    assert floor.slots.waiting == 4
    floor.slots.running.append(floor.slots.queued.pop(0))
    floor.end(1)
    assert floor.claims.step() > 0, "Enough of them wait: another claim would be a small one."
    assert floor.limits == [7]
    floor.slots.running.append(floor.slots.queued.pop(0))
    floor.end(2)
    floor.claims.step()
    assert floor.limits == [7, 2]


def test_what_was_claimed_ahead_is_held_from_the_claim_on(floor: Floor) -> None:
    """Faults X5."""
    floor.ordinary = [claim(row) for row in range(1, 6)]
    floor.slots.ahead = 2
    floor.claims.step()
    assert [delivery.claim.row_id for delivery in floor.leases.all()] == [1, 2, 3, 4, 5]


def test_what_was_claimed_ahead_behind_handlers_that_turn_out_slow_goes_back(floor: Floor) -> None:
    floor.ordinary = [claim(row) for row in range(1, 6)]
    floor.slots.ahead = 2
    floor.claims.step()
    waiting = list(floor.slots.queued)
    floor.claims.step()
    assert floor.released == []
    floor.now += claims_module.NOT_BEGUN_FOR
    floor.claims.step()
    assert floor.released == [4, 5]
    assert [delivery.claim.row_id for delivery in floor.leases.all()] == [1, 2, 3]
    assert all(delivery.begin() is Start.OVER for delivery in waiting)


def test_what_has_not_begun_goes_back_at_the_end_of_the_loop(floor: Floor) -> None:
    floor.ordinary = [claim(row) for row in range(1, 6)]
    floor.slots.ahead = 2
    floor.claims.step()
    floor.claims.close()
    assert floor.released == [4, 5]
    assert floor.running() == [1, 2, 3]


def test_nothing_is_claimed_before_the_start_is_in_order(floor: Floor) -> None:
    """Specification B7: rows of terminal workflows are settled before the first claim."""
    floor.ready.clear()
    floor.ordinary = [claim(1)]
    floor.claims.step()
    assert floor.running() == []


def test_what_is_claimed_is_held_until_its_acknowledgement_has_ended(floor: Floor) -> None:
    """Faults X5: renewed from the claim on."""
    floor.ordinary = [claim(1), claim(2)]
    floor.claims.step()
    assert [delivery.claim.row_id for delivery in floor.leases.all()] == [1, 2]


def test_a_hint_empties_the_process_and_suspects_go_one_by_one(floor: Floor) -> None:
    floor.ordinary = [claim(row) for row in range(1, 9)]
    floor.claims.step()
    floor.suspects = [claim(101, suspect=True), claim(102, suspect=True)]
    floor.claims.suspects_due()
    floor.end(1)
    floor.claims.step()
    assert floor.running() == [2, 3], "nothing new is claimed while the process runs empty"
    floor.end(2, 3)
    floor.claims.step()
    assert floor.running() == [101]
    floor.claims.step()
    assert floor.running() == [101], "a suspect runs alone"
    floor.end(101)
    floor.claims.step()
    assert floor.running() == [102]
    floor.end(102)
    floor.claims.step()
    assert floor.running() == [4, 5, 6], "then ordinary work goes on"


def test_a_handler_that_takes_long_can_not_stall_the_worker_for_the_sake_of_suspects(floor: Floor) -> None:
    floor.ordinary = [claim(row) for row in range(1, 9)]
    floor.claims.step()
    floor.suspects = [claim(101, suspect=True)]
    floor.claims.suspects_due()
    floor.end(1, 2)
    floor.claims.step()
    assert floor.running() == [3]
    floor.now += 61
    floor.claims.step()
    assert floor.running() == [3, 4, 5]
    floor.end(3, 4, 5)
    floor.now += 61
    floor.claims.step()
    assert floor.running() == [101], "after as long a time of ordinary work the suspects have their turn again"


def test_an_acknowledgement_that_is_pending_counts_as_in_flight(floor: Floor) -> None:
    floor.ordinary = [claim(1)]
    floor.claims.step()
    floor.slots.running.clear()
    floor.suspects = [claim(101, suspect=True)]
    floor.claims.suspects_due()
    floor.claims.step()
    assert floor.running() == []


def test_an_idle_worker_looks_for_suspects_by_itself(floor: Floor) -> None:
    floor.suspects = [claim(101, suspect=True)]
    floor.claims.step()
    floor.claims.step()
    assert floor.running() == [101]


def test_nobody_runs_empty_for_suspects_that_others_have_taken_or_that_wait_in_other_queues(floor: Floor) -> None:
    floor.ordinary = [claim(row) for row in range(1, 9)]
    floor.claims.step()
    floor.suspects = [claim(101, suspect=True)]
    floor.claims.suspects_due()
    floor.end(1)
    floor.claims.step()
    assert floor.running() == [2, 3]
    floor.suspects.clear()
    floor.now += 1
    floor.claims.step()
    assert floor.running() == [2, 3, 4]


def test_the_last_suspect_that_runs_here_still_keeps_ordinary_work_out(floor: Floor) -> None:
    floor.suspects = [claim(101, suspect=True)]
    floor.claims.suspects_due()
    floor.claims.step()
    floor.ordinary = [claim(1)]
    floor.now += 30
    floor.claims.step()
    assert floor.running() == [101]


def test_what_could_not_be_given_back_waits_on_for_its_slot(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    """HeldDelivery and renewed without being run, it would be stuck for as long as the worker lives."""

    def away(claims: Sequence[Claim]) -> None:
        raise OperationalError("gone")

    floor.slots.ahead = 2
    floor.ordinary = [claim(row) for row in range(1, 6)]
    floor.claims.step()
    monkeypatch.setattr(releasing, "release", away)
    floor.now += 10
    with pytest.raises(OperationalError):
        floor.claims.step()
    assert [delivery.claim.row_id for delivery in floor.slots.queued] == [4, 5]
    assert not any(delivery.concluded for delivery in floor.slots.queued)


def test_a_turn_may_take_what_it_stages_once_nothing_else_is_due(floor: Floor) -> None:
    """Once for each claim that left nothing behind: what others stage is not overtaken again and again."""
    assert floor.reserve() == 0, "What else is due is not known yet."
    floor.ordinary = [claim(1)]
    floor.claims.step()
    assert floor.reserve() == 2
    floor.claims.receive([claim(7)])
    assert floor.running() == [1, 7]
    assert floor.reserve() == 0
    floor.claims.step()
    assert floor.reserve() == 1


def test_a_full_claim_leaves_nothing_for_turns_to_take(floor: Floor) -> None:
    """There may be more where it came from, and that was due before."""
    floor.ordinary = [claim(row) for row in range(1, 4)]
    floor.claims.step()
    floor.end(1)
    assert floor.reserve() == 0


def test_what_a_turn_has_reserved_is_claimed_by_nobody_else(floor: Floor) -> None:
    """Until the turn has ended, however it ended."""
    floor.look()
    assert floor.reserve() == 3
    assert floor.claims.in_claim
    floor.ordinary = [claim(row) for row in range(1, 9)]
    floor.claims.step()
    assert floor.running() == []
    floor.claims.receive([])
    assert not floor.claims.in_claim
    floor.claims.step()
    assert floor.running() == [1, 2, 3]


def test_turns_take_nothing_while_suspects_wait_or_run(floor: Floor) -> None:
    """Specification B7: a suspect is delivered alone."""
    floor.look()
    floor.suspects = [claim(101, suspect=True)]
    floor.claims.suspects_due()
    assert floor.reserve() == 0
    floor.claims.step()
    assert floor.running() == [101]
    assert floor.reserve() == 0


def test_a_stop_knows_what_turns_under_way_have_taken(floor: Floor) -> None:
    """Else it would stay leased behind the end of the process."""
    floor.look()
    assert floor.reserve() == 3
    bringing = threading.Thread(target=floor.claims.receive, args=([claim(7)],))
    bringing.start()
    floor.claims.end_reservations(60)
    bringing.join()
    assert [delivery.claim.row_id for delivery in floor.leases.all()] == [7]
    floor.claims.step()
    assert floor.reserve() == 0


def test_slots_are_idle_when_a_claim_has_left_nothing_for_them(floor: Floor) -> None:
    assert floor.claims.idle is None
    floor.ordinary = [claim(1), claim(2)]
    floor.claims.step()
    assert floor.claims.idle == 1
    floor.ordinary = [claim(3), claim(4), claim(5)]
    floor.claims.step()
    assert floor.claims.idle == 0
    floor.end(1, 2, 3)
    assert floor.claims.idle is None


def test_what_has_not_been_acknowledged_keeps_its_slot_at_work(floor: Floor) -> None:
    """Only then can its workflow ask for more."""
    floor.ordinary = [claim(1), claim(2)]
    floor.claims.step()
    floor.slots.running.clear()
    assert floor.claims.idle == 1


def test_slots_are_not_idle_before_a_claim_has_looked(floor: Floor) -> None:
    """What became free a moment ago is for what is due already."""
    floor.ordinary = [claim(row) for row in range(1, 7)]
    floor.claims.step()
    floor.end(1)
    assert floor.claims.idle == 0
    floor.claims.step()
    assert floor.claims.idle == 0


def test_the_claim_loop_rings_for_more_once_when_there_is_no_more(floor: Floor) -> None:
    floor.ordinary = [claim(row) for row in range(1, 6)]
    floor.claims.step()
    floor.end(1, 2, 3)
    assert floor.hungry == 0
    for _ in range(3):
        floor.claims.step()
    assert floor.hungry == 1
