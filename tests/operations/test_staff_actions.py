"""The one audit: every verb of an operator's leaves a row, through whatever it came; an application's own, none."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from io import StringIO
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import OperationalError, transaction
from django.test import Client

from durable import operations
from durable.client.find import get_workflow
from durable.models import OutboxRow, StaffAction, Workflow
from durable.operations import RedriveMode
from tests import factories
from tests.admin.dead_letters import letter

pytestmark = pytest.mark.django_db(transaction=True)

STATES: dict[str, dict[str, Any]] = {
    "resume": {"status": "paused"},
    "unblock": {"blocked_reason": "the code has changed"},
}
OF_WORKFLOWS = ["pause", "resume", "unblock", "cancel", "terminate", "signal"]


def workflow(verb: str) -> Any:
    return factories.WorkflowFactory(**STATES.get(verb, {}))


def the_one() -> StaffAction:
    return StaffAction.objects.get()


@pytest.fixture
def anna(db: None) -> User:
    return User.objects.create_superuser("anna")


@pytest.mark.parametrize("verb", ["pause", "resume", "unblock", "terminate"])
def test_a_verb_from_python_is_audited_with_its_actor_and_reason(anna: User, verb: str) -> None:
    row = workflow(verb)
    getattr(operations, verb)(row.pk, actor=anna, reason="the bank is away")
    made = the_one()
    assert (made.verb, made.workflow_id, made.through, made.reason) == (verb, row.pk, "operations", "the bank is away")
    assert (made.actor, made.actor_text) == (anna, "anna")
    assert (made.ordinal, made.outbox_row_id, made.was_judged, made.job, made.mode) == (None, None, None, None, "")


def test_redrive_and_discard_name_the_activity_and_how(anna: User) -> None:
    first, second = letter(), letter(failure_delivered=True)
    operations.redrive(first.workflow_id, 1, actor=anna)
    operations.discard(second.workflow_id, 1, actor="ops", reason="paid by hand", then="cancel")
    redriven, discarded = StaffAction.objects.order_by("at")
    assert (redriven.verb, redriven.mode, redriven.was_judged) == ("redrive", "eligible", False)
    assert (redriven.workflow_id, redriven.ordinal, redriven.outbox_row_id) == (first.workflow_id, 1, first.pk)
    assert (discarded.verb, discarded.mode, discarded.was_judged) == ("discard", "cancel", True)
    assert (discarded.actor, discarded.actor_text) == (None, "ops")


@pytest.mark.parametrize("verb", OF_WORKFLOWS)
def test_a_verb_of_the_admin_is_audited(anna: User, verb: str) -> None:
    from django.urls import reverse

    row = workflow(verb)
    client = Client()
    client.force_login(anna)
    form = {"reason": "because", "signal": "approval", "payload": '{"pin": 1234}'}
    assert client.post(reverse(f"admin:durable_workflow_{verb}", args=[row.pk]), form).status_code == 302
    made = the_one()
    assert (made.verb, made.workflow_id, made.through, made.actor) == (verb, row.pk, "admin", anna)
    assert made.reason == ("" if verb == "signal" else "because")
    assert made.data == ({"signal": "approval"} if verb == "signal" else {})


@pytest.mark.parametrize("verb", OF_WORKFLOWS)
def test_a_verb_of_the_command_is_audited_with_the_account_of_the_machine(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "deploy")
    row = workflow(verb)
    rest = ["approval"] if verb == "signal" else ["--reason", "because"]
    call_command("durable", verb, str(row.pk), *rest, "--actor", "ops", stdout=StringIO())
    made = the_one()
    assert (made.verb, made.workflow_id, made.through, made.actor_text) == (verb, row.pk, "command", "ops")
    assert made.data["login"] == "deploy"


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_dead_letters_by_the_command_are_audited_as_such(verb: str) -> None:
    row = letter()
    call_command("durable", verb, str(row.workflow_id), "1", "--reason", "because", stdout=StringIO())
    made = the_one()
    assert (made.verb, made.through, made.outbox_row_id) == (verb, "command", row.pk)


def test_a_start_by_the_command_is_audited_or_does_not_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "durable.change_some_dead_letters"
    form = json.dumps({"verb": "redrive", "wanted": {}, "request": str(uuid.uuid4())})
    begin = ["durable", "start", name, "--args", f"[{form}, {{}}]", "--actor", "ops"]
    call_command(*begin, stdout=StringIO())
    begun = Workflow.objects.get()
    made = the_one()
    assert (made.verb, made.workflow_id, made.through, made.actor_text) == ("start", begun.pk, "command", "ops")
    with (
        mock.patch("durable.management.subcommands.start.auditing.record", side_effect=OperationalError("away")),
        pytest.raises(CommandError),
    ):
        call_command(*begin, stdout=StringIO())
    assert Workflow.objects.count() == 1


@pytest.mark.parametrize("way", ["signal", "cancel"])
def test_what_the_application_sends_by_its_handle_is_no_act_of_staff(way: str) -> None:
    row = factories.WorkflowFactory()
    handle: Any = get_workflow(row.pk)
    handle.signal("approval", {"ok": True}) if way == "signal" else handle.cancel(reason="too late")
    assert not StaffAction.objects.exists()


REFUSED: dict[str, Callable[[uuid.UUID], object]] = {
    "pause": lambda id: operations.pause(id),
    "resume": lambda id: operations.resume(id),
    "unblock": lambda id: operations.unblock(id),
    "terminate": lambda id: operations.terminate(id, reason="enough"),
    "redrive": lambda id: operations.redrive(id, 1, mode=RedriveMode.FORCED, reason="please"),
    "discard": lambda id: operations.discard(id, 1, reason="enough"),
}


@pytest.mark.parametrize("verb", list(REFUSED))
def test_what_was_refused_is_not_told_as_done(verb: str) -> None:
    ended = factories.WorkflowFactory(status="completed", closed_at=factories.now())
    with pytest.raises(Exception, match=r"ended|completed|over"):
        REFUSED[verb](ended.pk)
    assert not StaffAction.objects.exists()


@pytest.mark.parametrize(("verb", "status"), [("pause", "paused"), ("resume", "running")])
def test_what_changed_nothing_is_not_told_as_done(verb: str, status: str) -> None:
    row = factories.WorkflowFactory(status=status)
    getattr(operations, verb)(row.pk)
    assert not StaffAction.objects.exists()


@pytest.mark.parametrize("way", ["signal", "cancel"])
def test_what_joins_a_transaction_that_is_rolled_back_leaves_no_audit(way: str) -> None:
    from durable.client.handle import send_for_staff
    from durable.flow.caller.cancel import cancel

    row = factories.WorkflowFactory()
    with transaction.atomic():
        send_for_staff(row.pk, "go") if way == "signal" else cancel(row.pk, audited=True)
        assert StaffAction.objects.count() == 1
        transaction.set_rollback(True)
    assert not StaffAction.objects.exists()


def test_an_audit_survives_the_row_and_the_user(anna: User) -> None:
    row = letter()
    operations.redrive(row.workflow_id, 1, actor=anna)
    OutboxRow.objects.filter(pk=row.pk).delete()
    User.objects.filter(pk=anna.pk).delete()
    made = the_one()
    assert (made.workflow_id, made.ordinal, made.actor_text) == (row.workflow_id, 1, "anna")
