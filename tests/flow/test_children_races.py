"""Parents and children at the same moment, from several connections: nobody waits for the other's lock."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from durable.errors import WorkflowClosed
from durable.flow.caller import cancel
from durable.flow.looks import prove
from durable.flow.operator import terminate
from durable.flow.turns import others
from durable.models import Workflow
from durable.store.runs import workflows
from tests.flow import families
from tests.flow.driver import Driver, history, workflow
from tests.flow.kin import only_child, result, send
from tests.rounds import AT_LAST, rounds
from tests.waiting import PATIENCE, Barrier, Gate, in_thread

pytestmark = pytest.mark.django_db(transaction=True)

on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no row locks.")
LIVE = ("running", "paused")


def holding(workflow_id: uuid.UUID, gate: Gate) -> Callable[[], None]:
    """Locks a workflow, as a turn or a verb does, until the gate is opened."""

    def hold() -> None:
        with transaction.atomic():
            assert workflows.lock(transaction.get_connection(), [workflow_id])
            gate.pass_through()

    return hold


@on_postgresql
def test_a_child_ends_while_its_parent_is_locked(driver: Driver, gate: Gate) -> None:
    parent = driver.start(families.holds, "waits", "cancel", "await")
    driver.run()
    child = only_child(parent).pk
    send(child, "go", "on")
    held = in_thread(holding(parent, gate))
    gate.wait_for_arrival()
    driver.run()
    assert workflow(child).status == "completed"
    gate.open()
    held.result(PATIENCE)
    driver.run()
    assert result(parent) == "on"


@on_postgresql
def test_a_parent_ends_while_its_child_is_locked(driver: Driver, gate: Gate) -> None:
    parent = driver.start(families.holds, "waits", "terminate", "end")
    driver.run()
    child = only_child(parent).pk
    held = in_thread(holding(child, gate))
    gate.wait_for_arrival()
    terminate.terminate(parent, reason="enough")
    gate.open()
    held.result(PATIENCE)
    driver.run()
    assert workflow(child).status == "cancelled"


@on_postgresql
@pytest.mark.parametrize("what", ["id", "key", "cancel", "cancel key"])
def test_what_a_turn_sends_waits_for_no_lock_and_no_open_transaction_of_others(
    driver: Driver, gate: Gate, what: str
) -> None:
    """Somebody has locked the workflow, and has asked it to cancel in a transaction that is still open."""
    other = driver.start(families.waits, key="order-1")
    driver.run()

    def asking() -> None:
        with transaction.atomic():
            assert workflows.lock(transaction.get_connection(), [other])
            cancel.cancel(other, reason="by somebody else")
            gate.pass_through()

    held = in_thread(asking)
    gate.wait_for_arrival()
    sender = driver.start(families.sends, other, what)
    driver.run()
    assert result(sender) == "accepted"
    gate.open()
    held.result(PATIENCE)
    driver.run()
    assert workflow(other).status == "cancelled" if what.startswith("cancel") else "completed"


@pytest.mark.parametrize("policy", ["cancel", "terminate"])
def test_no_child_is_born_after_the_statement_that_tells_the_children_of_an_end(
    driver: Driver, gate: Gate, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """The parent is terminated while the turn that starts the child is about to write it."""
    parent = driver.start(families.holds, "waits", policy, "end")
    start_children = others.start_children

    def gated(own: Any, plans: Any) -> None:
        if any(plan.children for plan in plans):
            gate.pass_through()
        start_children(own, plans)

    monkeypatch.setattr(others, "start_children", gated)
    turning = in_thread(driver.turn)
    gate.wait_for_arrival()
    ending = in_thread(terminate.terminate, parent, reason="enough")
    gate.open()
    turning.result(PATIENCE)
    ending.result(PATIENCE)
    monkeypatch.undo()
    Driver().run()
    assert workflow(parent).status == "cancelled"
    assert only_child(parent).status == "cancelled"
    assert ("cancel_requested" in history(only_child(parent).pk)) is (policy == "cancel")


def _turns(_: list[uuid.UUID]) -> None:
    mine = Driver(cached=0)
    for _round in range(6):
        mine.turn()


def _ends(family: list[uuid.UUID]) -> None:
    for parent in family[::3]:
        terminate.terminate(parent, reason="enough")
    for child in Workflow.objects.filter(parent_id__in=family).order_by("-id")[:3]:
        with contextlib.suppress(WorkflowClosed):
            terminate.terminate(child.pk, reason="enough")


def _signals(family: list[uuid.UUID]) -> None:
    for child in Workflow.objects.filter(parent_id__in=family, status__in=LIVE).order_by("id"):
        with contextlib.suppress(WorkflowClosed):
            send(child.pk, "go", "on")


def _cancels(family: list[uuid.UUID]) -> None:
    for parent in family[1::3]:
        cancel.cancel(parent, reason="not wanted")


def _families(driver: Driver) -> list[uuid.UUID]:
    made = [driver.start(families.rally, n) for n in range(2, 8)]
    driver.run()
    return made


@pytest.mark.races
def test_families_that_end_are_terminated_and_signalled_at_once_meet_no_deadlock(
    barrier: Callable[[int], Barrier],
) -> None:
    times, meet, over = rounds(6, asked=200), barrier(5), barrier(5)
    driver = Driver()
    made = [_families(driver) for _ in range(times)]

    def acting(act: Callable[[list[uuid.UUID]], None]) -> None:
        for family in made:
            meet.wait()
            act(family)
            over.wait()

    for party in [in_thread(acting, act) for act in (_turns, _turns, _ends, _signals, _cancels)]:
        party.result(AT_LAST)
    for parent in (parent for family in made for parent in family):
        for child in Workflow.objects.filter(parent_id=parent, status__in=LIVE):
            send(child.pk, "go", "late")
    Driver().run(rounds=2_000)
    assert list(prove.contradictions()) == []
    assert not Workflow.objects.filter(status__in=LIVE).exists(), "a parent waits for a child that has ended"
