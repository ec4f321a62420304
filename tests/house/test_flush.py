"""What empties the databases between tests leaves nothing, and what all projects have stays."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection

from tests import factories
from tests.ledger.management.commands import flush
from tests.ledger.models import Entry

pytestmark = pytest.mark.django_db(transaction=True)


def flushed() -> None:
    """As `TransactionTestCase` calls it."""
    named = {"reset_sequences": False, "allow_cascade": False, "inhibit_post_migrate": False}
    call_command("flush", verbosity=0, interactive=False, database="default", **named)


def kept() -> list[list[Any]]:
    return [list(model.objects.order_by("pk").values()) for model in (ContentType, Permission)]


def rows() -> dict[str, int]:
    """How many rows each table has, of all but the two."""
    two = {ContentType._meta.db_table, Permission._meta.db_table}
    counted = {}
    with connection.cursor() as cursor:
        for table in set(connection.introspection.django_table_names(only_existing=True)) - two:
            cursor.execute(f"SELECT count(*) FROM {connection.ops.quote_name(table)}")
            counted[table] = cursor.fetchone()[0]
    return counted


@pytest.mark.parametrize("largest", [flush.LARGEST, 0], ids=["small", "large"])
def test_all_rows_go_and_permissions_stay(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    flushed()
    monkeypatch.setattr(flush, "LARGEST", largest)
    before = kept()
    workflow = factories.WorkflowFactory()
    factories.history_of(workflow, length=3)
    factories.FailedAttemptFactory(outbox_row=factories.OutboxRowFactory(workflow=workflow))
    factories.MessageFactory(workflow=workflow)
    Entry.objects.create(label="one")
    User.objects.create_user("anna").user_permissions.set(Permission.objects.all())
    assert sum(bool(count) for count in rows().values()) > 6
    flushed()
    assert set(rows().values()) == {0}
    assert kept() == before
    assert Permission.objects.exists()


def test_permissions_that_a_test_has_changed_are_made_anew() -> None:
    flushed()
    names = set(Permission.objects.values_list("codename", flat=True))
    Permission.objects.filter(codename="redrive_deadletter").delete()
    Permission.objects.filter(codename="add_user").update(codename="other")
    flushed()
    assert set(Permission.objects.values_list("codename", flat=True)) == names
