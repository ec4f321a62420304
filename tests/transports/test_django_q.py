"""The transport to django-q2, without a cluster: what a message holds, and what a ping asks."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import DatabaseError, connection

from durable.transports import django_q
from durable.transports.django_q import MESSAGE, DjangoQ

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_message_names_row_and_token_and_carries_options_that_outrank_the_clusters() -> None:
    from django_q.models import OrmQ

    token = uuid.uuid4()
    DjangoQ("reports").send(17, token)
    message = OrmQ.objects.get()
    task: dict[str, Any] = message.task
    assert message.key == "reports"
    assert (task["func"], task["args"], task["kwargs"]) == (django_q.RECEIVER, (17, token.hex), {})
    assert {key: task[key] for key in MESSAGE} == MESSAGE
    assert MESSAGE == {"timeout": -1, "sync": False, "cached": False, "save": False, "ack_failure": True}
    assert set(task) == {"id", "name", "func", "args", "kwargs", "started", "cluster", *MESSAGE}


def test_a_cluster_that_would_run_tasks_at_the_caller_does_not_run_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    from django_q.conf import Conf
    from django_q.models import OrmQ

    monkeypatch.setattr(Conf, "SYNC", True)
    DjangoQ("reports").send(17, uuid.uuid4())
    assert OrmQ.objects.count() == 1


def test_a_ping_asks_the_table_of_the_broker() -> None:
    """The broker of the ORM says yes whatever its database says."""
    transport = DjangoQ("reports")
    transport.ping()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_q_ormq RENAME TO elsewhere")
    try:
        with pytest.raises(DatabaseError):
            transport.ping()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO django_q_ormq")


def test_a_broker_that_says_no_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = DjangoQ("reports")
    # A broker that answers, and says no: none of q2's does.
    monkeypatch.setattr(transport._broker, "ping", lambda: False)
    with pytest.raises(ConnectionError, match="'reports' refuses"):
        transport.ping()


def test_what_the_cluster_calls_is_there() -> None:
    """The message names it as text."""
    from pydoc import locate

    from durable.worker.process import cluster

    assert locate(django_q.RECEIVER) is cluster.run
