"""Operators' verbs on what a foreign session has locked: a typed answer soon, nothing changed, and done afterwards."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.db import transaction as django_transaction
from django.test import Client
from django.urls import reverse

from durable.client.find import get_workflow
from durable.errors import StoreUnavailable
from durable.flow.transactions import transaction
from durable.models import OutboxRow, Workflow
from durable.operations import discard, discard_many, pause, redrive, redrive_many, resume, terminate, unblock
from durable.outcomes import CancelAnswer, Discarded, Redriven
from tests.flow import cases
from tests.flow.driver import Driver
from tests.flow.state import everything, locked_elsewhere
from tests.operations.scenes import alive, dead, history
from tests.settings import VENDOR

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(VENDOR != "postgresql", reason="SQLite has no row locks."),
]

Verb = Callable[[uuid.UUID], Any]

VERBS: dict[str, Verb] = {
    "redrive": lambda workflow_id: redrive(workflow_id, 1),
    "discard": lambda workflow_id: discard(workflow_id, 1, reason="paid by hand"),
    "pause": pause,
    "resume": resume,
    "unblock": unblock,
    "terminate": lambda workflow_id: terminate(workflow_id, reason="stuck"),
}
LOCKED_ROW_TOO = ["redrive", "discard", "pause", "resume", "terminate"]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Short waits for locks; the list has an entry for each transaction that was bounded."""
    begun: list[None] = []
    real = transaction.bound_waits

    def bound(connection: Any) -> None:
        begun.append(None)
        real(connection)

    monkeypatch.setattr(transaction, "bound_waits", bound)
    monkeypatch.setattr(transaction, "_FIRST_WAIT", 0.0)  # no waits between the tries of a transaction
    # No setting: two seconds otherwise.
    monkeypatch.setattr(transaction, "_LOCK_TIMEOUT", "SET LOCAL lock_timeout = '20ms'")
    return begun


@pytest.fixture
def workflow() -> Workflow:
    """A workflow that every verb has something to do to: with a dead letter, and blocked."""
    made = history()
    dead(made)
    Workflow.objects.filter(pk=made.pk).update(blocked_reason="other code")
    return made


def fit(name: str, workflow: Workflow) -> None:
    if name == "resume":
        pause(workflow.pk)


@pytest.mark.parametrize(
    ("name", "table"),
    [(name, "durable_workflow") for name in VERBS] + [(name, "durable_outboxrow") for name in LOCKED_ROW_TOO],
)
def test_a_verb_on_what_somebody_has_locked_says_so_and_changes_nothing(
    workflow: Workflow, waits: list[None], name: str, table: str
) -> None:
    """After two tries, so after two seconds of waiting. The same call succeeds once the lock is gone."""
    fit(name, workflow)
    before = everything()
    waits.clear()
    key = workflow.pk if table == "durable_workflow" else OutboxRow.objects.get().pk
    with locked_elsewhere(table, "id", key), pytest.raises(StoreUnavailable) as refused:
        VERBS[name](workflow.pk)
    assert len(waits) == 2
    assert type(refused.value) is StoreUnavailable
    assert (refused.value.code, refused.value.locked, refused.value.outcome_unknown) == (
        "store_unavailable",
        True,
        False,
    )
    assert "Another session has locked this" in str(refused.value)
    assert isinstance(refused.value.cause, OperationalError)
    assert everything() == before
    VERBS[name](workflow.pk)
    assert everything() != before


@pytest.mark.parametrize("verb", [redrive_many, lambda rows: discard_many(rows, reason="because")])
def test_in_bulk_the_locked_one_says_so_and_the_others_are_done(verb: Any) -> None:
    rows = [dead(history()) for _ in range(3)]
    with locked_elsewhere("durable_workflow", "id", rows[1].workflow_id):
        one, refused, other = verb(rows)
    assert isinstance(refused, StoreUnavailable)
    assert refused.locked
    assert {type(one), type(other)} <= {Redriven, Discarded}


@pytest.mark.parametrize("status", ["pending", "claimed"])
@pytest.mark.parametrize("table", ["durable_workflow", "durable_outboxrow"])
def test_cancelling_a_locked_single_activity_does_not_wait_for_ever(driver: Driver, table: str, status: str) -> None:
    workflow_id = driver.enqueue(cases.step, 1)
    if status == "claimed":
        driver.claim_one()
    before = everything()
    key = workflow_id if table == "durable_workflow" else OutboxRow.objects.get().pk
    with locked_elsewhere(table, "id", key), pytest.raises(StoreUnavailable, match="locked") as refused:
        get_workflow(workflow_id).cancel()
    assert refused.value.locked
    assert everything() == before
    answer = get_workflow(workflow_id).cancel().answer
    assert answer is (CancelAnswer.ASKED if status == "claimed" else CancelAnswer.DONE)


def test_in_a_transaction_of_the_callers_its_own_limit_holds_and_the_error_passes(driver: Driver) -> None:
    """Nothing of it is changed: neither the limit nor what the caller does about it."""
    workflow_id = driver.enqueue(cases.step, 1)
    locked = locked_elsewhere("durable_workflow", "id", workflow_id)
    with locked, django_transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '30ms'")
        with pytest.raises(OperationalError, match="lock timeout"), django_transaction.atomic():
            get_workflow(workflow_id).cancel()
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("30ms",)


@pytest.mark.parametrize("name", [*VERBS, "cancel"])
def test_the_command_says_it_in_one_line_and_as_data(workflow: Workflow, name: str) -> None:
    fit(name, workflow)
    if name == "cancel":
        Workflow.objects.filter(pk=workflow.pk).update(single=True)
    words = {
        "redrive": [str(workflow.pk), "1"],
        "discard": [str(workflow.pk), "1", "--reason", "paid"],
        "terminate": [str(workflow.pk), "--reason", "stuck"],
    }
    out = io.StringIO()
    with locked_elsewhere("durable_workflow", "id", workflow.pk), pytest.raises(CommandError) as refused:
        call_command("durable", name, *words.get(name, [str(workflow.pk)]), "--json", stdout=out)
    assert refused.value.returncode == 3
    assert str(refused.value).startswith("Another session has locked this")
    assert str(refused.value).endswith("[store_unavailable]")
    assert json.loads(out.getvalue())["error"]["code"] == "store_unavailable"


@pytest.mark.parametrize("name", ["pause", "terminate", "unblock", "cancel"])
def test_the_admin_says_it_on_the_form_which_can_be_sent_again(
    admin_client: Client, workflow: Workflow, name: str
) -> None:
    if name == "cancel":
        Workflow.objects.filter(pk=workflow.pk).update(single=True)
    address = reverse(f"admin:durable_workflow_{name}", args=[workflow.pk])
    form = {"reason": "stuck", "request_id": uuid.uuid4().hex}
    with locked_elsewhere("durable_workflow", "id", workflow.pk):
        answer = admin_client.post(address, form)
    assert answer.status_code == 200
    assert "Another database session has locked this, so nothing was changed." in answer.text
    assert form["request_id"] in answer.text
    assert admin_client.post(address, form).status_code == 302


def test_the_admin_says_it_of_dead_letters(admin_client: Client) -> None:
    """Beside those that were given back."""
    rows = [dead(history()) for _ in range(2)]
    alive(history())
    with locked_elsewhere("durable_workflow", "id", rows[1].workflow_id):
        outcomes = redrive_many(rows)
    from durable.admin.words import refusals

    [refused] = [outcome for outcome in outcomes if isinstance(outcome, StoreUnavailable)]
    assert refusals.of(refused).short == "Locked by another session"


def test_a_lock_met_after_a_commit_in_doubt_leaves_the_outcome_unknown(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try may have been committed; the second meets a lock: nobody can say what holds."""
    commit = connection.commit
    told: list[None] = []
    locks = locked_elsewhere("durable_workflow", "id", workflow.pk)

    def committed_and_lost() -> None:
        commit()
        if not told:
            told.append(None)
            locks.__enter__()
            raise OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "commit", committed_and_lost)
        with pytest.raises(StoreUnavailable) as refused:
            pause(workflow.pk)
    locks.__exit__(None, None, None)
    assert refused.value.outcome_unknown
    assert "may or may not have been made" in str(refused.value)
    assert Workflow.objects.get(pk=workflow.pk).status == "paused"
