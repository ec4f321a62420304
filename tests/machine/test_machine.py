"""Every transition in any order, from several connections."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.chaos.fleet import FULL, tell
from tests.machine.machine import Machine

SHORT = settings(
    max_examples=8,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(
    SHORT,
    max_examples=200 if FULL else 10,
    stateful_step_count=80,
    derandomize=False,
    phases=[Phase.generate, Phase.shrink],
)
EVERYWHERE = {
    "acknowledged too late, and taken over", "turned", "taken by the turn: 1", "claimed: 2", "claimed a suspect",
    "acknowledged Completed: acknowledged", "acknowledged Completed: token_missing",
    "acknowledged Failed: acknowledged", "acknowledged Failed: token_missing",
    "acknowledged RetryLater: acknowledged", "acknowledged RetryLater: token_missing",
    "in one transaction : acknowledged", "in one transaction : token_missing", "in one transaction : raised",
    "renewed: renewed", "renewed: lost",
    "abandoned: pending", "abandoned: dead_lettered", "abandoned: token_missing",
    "given back uncounted: pending", "given back uncounted: token_missing",
    "reconciled: rearmed", "reconciled: dead_lettered",
    "redriven eligible: redrivable", "redriven eligible: history_records_outcome",
    "redriven eligible: workflow_terminal", "redriven eligible: row_not_found", "redriven eligible: not_dead_lettered",
    "redriven forced: redrivable", "discarded, then fail: discardable",
    "pause: paused", "resume: resumed", "terminate: terminated", "unblock: unblocked",
    "a turn wrote timer_fired", "a turn wrote workflow_timed_out", "a turn wrote workflow_cancelled",
    "a turn wrote signal_received", "a turn wrote activity_cancelled", "a turn wrote workflow_failed",
}  # fmt: skip
"""Where a long walk comes many times; if it did not, its silence would say nothing."""


def test_a_short_walk_through_all_transitions(machine: type[Machine]) -> None:
    """Specification A4, A6, B2 to B8; the invariants of docs/lifecycle.md after each step. The same walk each time."""
    run_state_machine_as_test(machine, settings=SHORT)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_long_walk_through_all_transitions(machine: type[Machine]) -> None:
    """The same at random: `DURABLE_TEST_SEED` repeats it. A failure is made smaller and told as a program."""
    number = int(os.environ.get("DURABLE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    tell(f"state machine: DURABLE_TEST_SEED={number}")
    run_state_machine_as_test(seed(number)(machine), settings=LONG)
    for situation, times in sorted(machine.reached.items()):
        tell(f"{times:7} {situation}")
    if FULL:
        assert EVERYWHERE - machine.reached.keys() == set()
