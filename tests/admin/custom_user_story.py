"""Run as a process of its own: migrate a project with its own users and admin site, and open every page of it."""

from __future__ import annotations

import re
import sys
import uuid
from datetime import timedelta
from typing import Any

import django

PLACES = ("workflow", "outboxrow", "workitem", "message", "worker", "deadletter")


def story() -> None:
    """Everything that a project with a swapped user does with the app."""
    from django.contrib.admin.models import LogEntry
    from django.contrib.auth import get_user_model
    from django.test import Client

    from durable.activities import BulkJob, BulkVerb
    from durable.models import StaffAction
    from durable.outcomes import DeadLetterFilter
    from durable.testing import drain
    from durable.workflows import change_dead_letters
    from tests import factories
    from tests.admin import dead_letters

    people: Any = get_user_model().objects
    person = people.create(email="anna@example.com", is_superuser=True)
    assert isinstance(person.pk, uuid.UUID)
    workflow = factories.WorkflowFactory(timers=[{"id": [1, 1], "due": factories.now().isoformat()}])
    factories.history_of(workflow, length=150)
    row = factories.OutboxRowFactory(workflow=workflow, status="claimed")
    factories.FailedAttemptFactory(outbox_row=row)
    factories.WorkItemFactory(outbox_row=row)
    message, worker = factories.MessageFactory(workflow=workflow), factories.WorkerFactory()
    letter = dead_letters.letter()
    client = Client()
    client.force_login(person)
    keys = dict(zip(PLACES, (workflow.pk, row.pk, row.pk, message.pk, worker.pk, letter.pk), strict=True))
    urls = ["/backstage/", "/backstage/durable/"]
    for place, key in keys.items():
        urls += [f"/backstage/durable/{place}/", f"/backstage/durable/{place}/{key}/change/"]
    for url in [*urls, f"/backstage/durable/workflow/{workflow.pk}/event/1/"]:
        response = client.get(url)
        assert response.status_code == 200, (url, response.status_code)
        links = set(re.findall(r'(?:href|action)="(/[^"]*)"', response.text))
        strangers = {link for link in links if not link.startswith(("/backstage/", "/static/"))} - {"/"}
        assert not strangers, (url, strangers)
    assert client.get("/backstage/durable/workflow/nonsense/change/")["Location"] == "/backstage/"

    base = f"/backstage/durable/deadletter/{letter.pk}"
    assert client.get(f"{base}/redrive/").status_code == 200
    answer = client.post(f"{base}/redrive/", {"confirmed": "yes", "reason": "the bank is back"})
    assert (answer.status_code, answer["Location"]) == (302, f"{base}/change/")
    audit = StaffAction.objects.get()
    assert (audit.actor, audit.actor_text) == (person, "anna@example.com")
    assert LogEntry.objects.get().user == person
    assert client.get(f"/backstage/durable/staffaction/{audit.pk}/change/").status_code == 200
    stop = client.post(f"/backstage/durable/workflow/{workflow.pk}/terminate/", {"reason": "stuck"})
    assert stop["Location"] == f"/backstage/durable/workflow/{workflow.pk}/change/"
    others = [dead_letters.letter(workflow__status="paused") for _ in range(2)]
    job = BulkJob(
        verb=BulkVerb.REDRIVE, wanted=DeadLetterFilter(), request=uuid.uuid4(), actor_key=str(person.pk),
        actor_text=str(person),
    )  # fmt: skip
    work = change_dead_letters.start(job)
    drain(until=timedelta(hours=1))
    assert set(StaffAction.objects.values_list("actor", flat=True)) == {person.pk}
    assert {dead_letters.status(other) for other in others} == {"pending"}
    assert client.get(f"/backstage/durable/deadletter/bulk/{work.id}/").status_code == 200
    person.delete()
    audit.refresh_from_db()
    assert (audit.actor_id, audit.actor_text) == (None, "anna@example.com")


def main() -> None:
    """Tell the story on a database of its own, and remove that again."""
    django.setup()
    from django.db import connection
    from django.test.runner import DiscoverRunner

    runner = DiscoverRunner(interactive=False, verbosity=0)
    made = runner.setup_databases()
    try:
        story()
        sys.stdout.write(f"all pages opened on {connection.vendor}\n")
    finally:
        runner.teardown_databases(made)


if __name__ == "__main__":
    main()
