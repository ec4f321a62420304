"""Run as a process of its own: operators with UUID keys, no time zones, and what is left when they are gone."""

from __future__ import annotations

import sys
import uuid
from typing import Any

import django


def story() -> None:
    """Redrive and discard as a user of the project's own model, then delete that user."""
    from django.contrib.auth import get_user_model

    from durable.models import StaffAction
    from durable.operations import discard, list_dead_letters, redrive
    from tests.operations.scenes import dead, history

    people: Any = get_user_model().objects
    anna = people.create(email="anna@example.com")
    assert isinstance(anna.pk, uuid.UUID)
    letters = [dead(history("activity_scheduled 1")) for _ in range(2)]
    assert len(list_dead_letters(letters[0].workflow_id)) == 1
    redrive(letters[0].workflow_id, 1, actor=anna, reason="bank is back")
    discard(letters[1].workflow_id, 1, actor=anna, reason="done by hand")
    audits: Any = StaffAction.objects.values_list("actor", "actor_text")
    assert set(audits.all()) == {(anna.pk, "anna@example.com")}
    assert {audit.actor for audit in StaffAction.objects.select_related("actor")} == {anna}
    anna.delete()
    assert set(audits.all()) == {(None, "anna@example.com")}


def main() -> None:
    """Tell the story on a database of its own, and remove that again."""
    django.setup()
    from django.db import connection
    from django.test.runner import DiscoverRunner

    runner = DiscoverRunner(interactive=False, verbosity=0)
    made = runner.setup_databases()
    try:
        story()
        sys.stdout.write(f"audited on {connection.vendor}\n")
    finally:
        runner.teardown_databases(made)


if __name__ == "__main__":
    main()
