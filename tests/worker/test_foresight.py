"""How many deliveries are claimed ahead."""

from __future__ import annotations

from durable.worker.handlers.foresight import HORIZON, MOST, Foresight


def test_nothing_is_claimed_ahead_before_a_handler_has_ended() -> None:
    assert Foresight(16).ahead == 0


def test_quick_handlers_have_as_many_waiting_as_begin_within_the_horizon_and_no_more_than_the_most() -> None:
    foresight = Foresight(4)
    foresight.ended_after(HORIZON / 2)
    assert foresight.ahead == 8
    for _ in range(1000):
        foresight.ended_after(0.000001)
    assert foresight.ahead == MOST


def test_one_slow_handler_counts_at_once() -> None:
    foresight = Foresight(4)
    foresight.ended_after(0.0)
    assert foresight.ahead == MOST
    foresight.ended_after(5 * HORIZON)
    assert foresight.ahead == 0


def test_slow_ones_are_made_up_for_slowly() -> None:
    foresight = Foresight(16)
    foresight.ended_after(20 * HORIZON)
    for _ in range(20):
        foresight.ended_after(0.001)
    assert foresight.ahead < 2
    for _ in range(200):
        foresight.ended_after(0.001)
    assert foresight.ahead > 50
