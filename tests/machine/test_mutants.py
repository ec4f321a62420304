"""The machine can fail: each of these faults, put into the engine, is found by it."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test

from durable.flow.endings import closing
from durable.flow.transactions import commits
from durable.models import Message
from durable.store.deliveries import outbox, work_items
from durable.store.deliveries.work_items import DeliveryKey, LockedItem
from durable.store.operators import redrives, staff_actions
from durable.store.runs import family, history, messages, sleeping
from tests.machine.machine import Machine

HUNT = settings(
    max_examples=400,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
"""Up to the first failure, without making it smaller."""


def _any_token_is_good(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements, abandonments and releases look at the row only."""

    def lock(connection: BaseDatabaseWrapper, deliveries: Iterable[DeliveryKey]) -> dict[DeliveryKey, LockedItem]:
        wanted = list(deliveries)
        items = work_items.lock_of_rows(connection, [row_id for row_id, _ in wanted])
        return {(row_id, token): items[row_id] for row_id, token in wanted if row_id in items}

    patch.setattr(work_items, "lock", lock)
    patch.setattr(work_items, "lock_with_heartbeats", lock)


def _recorded_outcomes_are_not_looked_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "records_outcome", lambda *args, **named: 0)


def _ended_workflows_leave_their_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "settle", lambda connection, workflow_ids: 0)


def _nobody_learns_what_was_left_unread(patch: pytest.MonkeyPatch) -> None:
    take = messages.consume

    def silently(connection: BaseDatabaseWrapper, **named: Any) -> list[tuple[uuid.UUID, str, str]]:
        take(connection, **named)
        return []

    patch.setattr(messages, "consume", silently)


def _ended_workflows_keep_nothing(patch: pytest.MonkeyPatch) -> None:
    take = messages.consume

    def gone(connection: BaseDatabaseWrapper, **named: Any) -> list[tuple[uuid.UUID, str, str]]:
        kept = take(connection, **named)
        for owner in {owner for owner, _, _ in kept}:
            Message.objects.filter(workflow_id=owner).delete()
        return kept

    patch.setattr(messages, "consume", gone)


def _resumed_workflows_keep_their_messages_parked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(messages, "unpark", lambda connection, workflow_ids: None)


def _lost_deliveries_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    give_back = outbox.give_back

    def uncounted(connection: BaseDatabaseWrapper, returns: Sequence[Any]) -> None:
        give_back(connection, [replace(one, failures=0) for one in returns])

    patch.setattr(outbox, "give_back", uncounted)


def _redrives_leave_no_audit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(staff_actions, "record", lambda connection, audit: None)


def _judged_ones_are_redriven_too(patch: pytest.MonkeyPatch) -> None:
    revive = redrives.revive
    patch.setattr(redrives, "revive", lambda *args, **named: revive(*args, **{**named, "judged_too": 1}))


def _paused_ones_are_claimed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outbox, "pause", lambda connection, ids: None)


def _one_token_for_all_claims(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits, "uuid", SimpleNamespace(uuid4=lambda: uuid.UUID(int=4)))


def _a_sleeper_is_not_woken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sleeping, "rearm", lambda connection, ids: None)


def _parents_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(family, "tell_parents", lambda connection, ends: None)


def _children_are_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(family, "ask_children", lambda connection, closed: None)


FAULTS: dict[Callable[[pytest.MonkeyPatch], None], set[str]] = {
    _any_token_is_good: {"go_on", "acknowledge", "abandon", "a_worker_sleeps_too_long"},
    _recorded_outcomes_are_not_looked_up: {"go_on", "a_row_dies", "redrive", "time_passes", "turn"},
    _nobody_learns_what_was_left_unread: {"go_on", "signal", "operate"},
    _ended_workflows_keep_nothing: {"go_on", "signal", "operate"},
    _resumed_workflows_keep_their_messages_parked: {"go_on", "signal", "operate"},
    _lost_deliveries_are_not_counted: {"go_on", "abandon", "reconcile"},
    _redrives_leave_no_audit: {"go_on", "a_row_dies", "redrive"},
    _judged_ones_are_redriven_too: {"go_on", "a_row_dies", "redrive"},
    _paused_ones_are_claimed: {"go_on", "turn", "operate", "claim"},
    _one_token_for_all_claims: {"go_on", "start", "enqueue", "claim"},
    _a_sleeper_is_not_woken: {"go_on", "operate"},
    _parents_are_not_told: {"go_on", "start", "operate"},
    _children_are_not_asked: {"go_on", "start", "operate"},
}
"""Each fault, and the rules that suffice to show it. All of them together would show it, too, and take longer."""
Mutate = Callable[[pytest.MonkeyPatch], None]


def only(machine: type[Machine], rules: set[str]) -> type[Machine]:
    """A machine with these rules; the others are methods like any other."""
    others = {
        name: (lambda self, *args, act=act, **named: act(self, *args, **named))
        for name, act in inspect.getmembers(machine, inspect.isfunction)
        if hasattr(act, RULE_MARKER) and name not in rules
    }
    return type("Machine", (machine,), others)


def found(machine: type[Machine], rules: set[str], mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The program that shows the fault, line by line."""
    mutate(monkeypatch)
    with pytest.raises(Exception) as caught:
        run_state_machine_as_test(only(machine, rules), settings=HUNT)
    assert not isinstance(caught.value, Flaky), "found by nothing but the end of the test's time"
    return [line for note in caught.value.__notes__ for line in note.splitlines()]


def test_a_fault_is_found_and_told_as_a_program(machine: type[Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {"go_on", "acknowledge", "operate"}
    program = found(machine, rules, _ended_workflows_leave_their_rows, monkeypatch)
    told = "\n".join(program)
    assert "state = Machine()" in program, told
    assert "state.something_is_there(" in told, told
    assert "state.teardown()" in program, told


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutate", FAULTS, ids=lambda mutate: mutate.__name__.strip("_"))
def test_every_fault_of_these_is_found(machine: type[Machine], mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(machine, FAULTS[mutate], mutate, monkeypatch)
