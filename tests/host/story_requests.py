"""Views that start and signal in their requests' transactions, and a worker that does the work."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

import durable
from durable.models import DeadLetter, Event, StaffAction, Workflow
from tests.host.crew import approved, chief, collected, environment, opened, staff, stuck, until, worker
from tests.host.desk.models import Line, Ticket
from tests.host.settings import JAM

__all__ = ["chief", "collected", "environment", "staff", "worker"]

pytestmark = pytest.mark.django_db(transaction=True)


def state(workflow_id: Any) -> str:
    return str(durable.get_workflow(workflow_id).status().value)


def is_completed(workflow_id: Any) -> bool:
    return state(workflow_id) == "completed"


def told(response: Any) -> list[str]:
    """The messages on a page."""
    return re.findall(r'<ul class="messagelist">(.*?)</ul>', response.text, re.DOTALL)


def test_a_ticket_goes_its_way_through_failures_and_an_approval_that_a_request_signals(
    worker: subprocess.Popen[bytes],
) -> None:
    tickets = [opened(f"Straße {number}") for number in range(5)]
    for number, _ in tickets:
        approved(number)
    for number, workflow_id in tickets:
        until(partial(is_completed, workflow_id))
        assert durable.get_workflow(workflow_id).result(timeout=1) == f"page {number}"
        assert Ticket.objects.get(pk=number).note == "approved by Jörg"
    assert Event.objects.filter(type="activity_failed").count() == len(tickets), "the one that nobody insures"
    found = Line.objects.filter(logger__startswith="durable", text__contains="ticket_found")
    until(lambda: found.count() >= len(tickets))


def test_a_request_that_fails_starts_nothing_and_signals_nothing(worker: subprocess.Popen[bytes]) -> None:
    client = Client(raise_request_exception=False)
    assert client.post("/tickets/?fail=1", {"title": "no"}).status_code == 500
    assert not Workflow.objects.exists()
    number, workflow_id = opened("yes")
    assert client.post(f"/tickets/{number}/approve/?fail=1", {"who": "nobody"}).status_code == 500
    approved(number)
    until(lambda: state(workflow_id) == "completed")
    assert Ticket.objects.get(pk=number).note == "approved by Jörg"


def test_a_dead_letter_is_redriven_in_the_admin_and_its_ticket_goes_on(
    worker: subprocess.Popen[bytes], staff: Client, chief: Any
) -> None:
    letter = stuck(worker)
    page = f"/admin/durable/deadletter/{letter.pk}/redrive/"
    assert staff.get(page).status_code == 200
    Path(JAM).unlink()
    response = staff.post(page, {"confirmed": "yes", "reason": "the printer is free"})
    assert response.status_code == 302, response.text
    assert (audit := StaffAction.objects.first()) is not None, told(staff.get(response["Location"]))
    assert (audit.actor, audit.actor_text, audit.reason) == (chief, "anna", "the printer is free")
    until(lambda: state(letter.workflow_id) == "completed")
    assert not DeadLetter.objects.dead_letters().exists()


def test_beneath_an_atomic_middleware_a_redrive_is_refused_with_a_sentence_and_changes_nothing(
    worker: subprocess.Popen[bytes], staff: Client, settings: Any
) -> None:
    letter = stuck(worker)
    Path(JAM).unlink()
    settings.NOT_ATOMIC_BELOW = ()
    page = f"/admin/durable/deadletter/{letter.pk}/redrive/"
    response = staff.post(page, {"confirmed": "yes", "reason": "the printer is free"}, follow=True)
    assert response.status_code == 200
    assert "transaction" in response.text
    assert not StaffAction.objects.exists()
    assert DeadLetter.objects.dead_letters().get().pk == letter.pk
    assert state(letter.workflow_id) == "running"


def test_what_failed_for_good_stands_in_the_log_that_is_written_through_the_orm(
    worker: subprocess.Popen[bytes],
) -> None:
    letter = stuck(worker)
    said = Line.objects.filter(logger__startswith="durable", level__in=["WARNING", "ERROR"])
    until(lambda: said.filter(text__contains="worker_process_died").exists())
    assert letter.workflow_id
