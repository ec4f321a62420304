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
from tests.host.story_pages import pages

__all__ = ["chief", "collected", "environment", "staff", "worker"]

pytestmark = pytest.mark.django_db(transaction=True)


def state(workflow_id: Any) -> str:
    return str(durable.get_workflow(workflow_id).status().value)


def is_completed(workflow_id: Any) -> bool:
    return state(workflow_id) == "completed"


def told(response: Any) -> list[str]:
    """The messages on a page."""
    return re.findall(r'<ul class="messagelist">(.*?)</ul>', response.text, re.DOTALL)


def test_a_ticket_goes_its_way_and_a_request_that_fails_starts_nothing_and_signals_nothing(
    worker: subprocess.Popen[bytes],
) -> None:
    """Through failures, and an approval that a request signals."""
    client = Client(raise_request_exception=False)
    assert client.post("/tickets/?fail=1", {"title": "no"}).status_code == 500
    assert not Workflow.objects.exists()
    tickets = [opened(f"Straße {number}") for number in range(5)]
    refused, _ = tickets[0]
    assert client.post(f"/tickets/{refused}/approve/?fail=1", {"who": "nobody"}).status_code == 500
    for number, _ in tickets:
        approved(number)
    for number, workflow_id in tickets:
        until(partial(is_completed, workflow_id))
        assert durable.get_workflow(workflow_id).result(timeout=1) == f"page {number}"
        assert Ticket.objects.get(pk=number).note == "approved by Jörg"
    assert Event.objects.filter(type="activity_failed").count() == len(tickets), "the one that nobody insures"
    found = Line.objects.filter(logger__startswith="durable", text__contains="ticket_found")
    until(lambda: found.count() >= len(tickets))


def opens_every_page(staff: Client) -> bool:
    there = list(pages())
    return {page: staff.get(page, follow=True).status_code for page in there} == dict.fromkeys(there, 200)


def test_a_dead_letter_is_in_the_log_is_refused_beneath_an_atomic_middleware_and_else_redriven_in_the_admin(
    worker: subprocess.Popen[bytes], staff: Client, chief: Any, settings: Any
) -> None:
    """The log is written through the ORM, the refusal is a sentence that changes nothing, and all the time each page
    of what workers have done opens.
    """
    letter = stuck(worker)
    said = Line.objects.filter(logger__startswith="durable", level__in=["WARNING", "ERROR"])
    until(lambda: said.filter(text__contains="worker_process_died").exists())
    assert opens_every_page(staff)
    Path(JAM).unlink()
    page = f"/admin/durable/deadletter/{letter.pk}/redrive/"
    form = {"confirmed": "yes", "reason": "the printer is free"}
    assert staff.get(page).status_code == 200

    not_atomic = settings.NOT_ATOMIC_BELOW
    settings.NOT_ATOMIC_BELOW = ()
    response = staff.post(page, form, follow=True)
    settings.NOT_ATOMIC_BELOW = not_atomic
    assert response.status_code == 200
    assert "Datenbank-Transaktion" in response.text  # the site is a German one
    assert not StaffAction.objects.exists()
    assert DeadLetter.objects.dead_letters().get().pk == letter.pk
    assert state(letter.workflow_id) == "running"

    response = staff.post(page, form)
    assert response.status_code == 302, response.text
    assert (audit := StaffAction.objects.first()) is not None, told(staff.get(response["Location"]))
    assert (audit.actor, audit.actor_text, audit.reason) == (chief, "anna", "the printer is free")
    until(lambda: state(letter.workflow_id) == "completed")
    assert not DeadLetter.objects.dead_letters().exists()
    number, _ = opened("another")
    approved(number)
    assert opens_every_page(staff)
