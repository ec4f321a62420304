"""What a database of an older release holds is there in the words of this one after `migrate`, and back again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = [("durable", "0001_initial")]
OLD = [("eligible", True), ("forced", False), ("discard_fail", True), ("discard_cancel", False)]


def migrate(*targets: tuple[str, str]) -> Any:
    """Go there, and return the models as they are there."""
    executor = MigrationExecutor(connection)
    executor.migrate(list(targets))
    return MigrationExecutor(connection).loader.project_state(list(targets)).apps


def latest() -> list[tuple[str, str]]:
    return [node for node in MigrationExecutor(connection).loader.graph.leaf_nodes() if node[0] == "durable"]


@pytest.fixture
def first_release() -> Iterator[Any]:
    """The app's tables as they were in the first release; afterwards they are today's again."""
    yield migrate(*FIRST)
    migrate(*latest())


def test_redrives_and_discards_of_an_older_release_are_kept_and_reworded(first_release: Any) -> None:
    workflow_id, user_id = uuid.uuid4(), None
    now = factories.now()
    first_release.get_model("durable", "Workflow").objects.create(
        id=workflow_id, type="shop.checkout", status="running", input="[]", created_at=now
    )
    row = first_release.get_model("durable", "OutboxRow").objects.create(
        workflow_id=workflow_id, run=1, ordinal=7, activity="shop.charge", input="[]", status="done",
        visible_after=now, created_at=now, delivery_budget=8, attempt_budget=5,
    )  # fmt: skip
    request = uuid.uuid4()
    for mode, judged in OLD:
        first_release.get_model("durable", "Redrive").objects.create(
            id=uuid.uuid4(), outbox_row=row, actor_id=user_id, actor_text="anna", mode=mode, reason=f"for {mode}",
            was_judged=judged, request=request, at=now,
        )  # fmt: skip
    lost = first_release.get_model("durable", "Redrive").objects.create(
        id=uuid.uuid4(), outbox_row_id=row.pk + 1, actor_text="bob", mode="eligible", was_judged=False, at=now
    )
    migrate(*latest())
    from durable.models import StaffAction

    kept = StaffAction.objects.exclude(pk=lost.pk)
    assert {(a.verb, a.mode, a.reason, a.was_judged) for a in kept} == {
        ("redrive", "eligible", "for eligible", True),
        ("redrive", "forced", "for forced", False),
        ("discard", "fail", "for discard_fail", True),
        ("discard", "cancel", "for discard_cancel", False),
    }
    assert {(a.workflow_id, a.ordinal, a.outbox_row_id, a.through) for a in kept} == {(workflow_id, 7, row.pk, "")}
    assert {(a.actor_text, a.request, a.at) for a in kept} == {("anna", request, now)}
    found = StaffAction.objects.get(pk=lost.pk)
    assert (found.verb, found.workflow_id, found.ordinal, found.actor_text) == ("redrive", None, None, "bob")
    old = migrate(*FIRST).get_model("durable", "Redrive").objects
    assert {(a.mode, a.was_judged) for a in old.exclude(pk=lost.pk)} == set(OLD)


def test_whoever_could_see_redrives_sees_staff_actions(first_release: Any) -> None:
    from django.contrib.auth.models import Permission, User
    from django.contrib.contenttypes.models import ContentType

    ContentType.objects.filter(app_label="durable", model="staffaction").delete()  # and its permission with it
    kind, _new = ContentType.objects.get_or_create(app_label="durable", model="redrive")
    held, _new = Permission.objects.get_or_create(
        content_type=kind, codename="view_redrive", defaults={"name": "Can view redrive"}
    )
    anna = User.objects.create_user("anna")
    anna.user_permissions.add(held)
    from django.core.management import call_command

    call_command("migrate", "durable", verbosity=0)
    fresh = User.objects.get(pk=anna.pk)
    assert fresh.has_perm("durable.view_staffaction")
    assert Permission.objects.filter(codename__in=["view_redrive", "view_staffaction"]).count() == 1
    assert Permission.objects.get(codename="view_staffaction").name == "Can view staff action"


def test_the_models_are_what_the_migrations_make() -> None:
    from io import StringIO

    from django.core.management import call_command

    call_command("makemigrations", "durable", check=True, dry_run=True, stdout=StringIO())
