"""What `durable health` and the admin say of queues that are sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from durable.models import WorkItem
from tests import factories
from tests.admin.conftest import root
from tests.management.ran import Ran

__all__ = ["root"]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def reports(settings: Any) -> None:
    """The queue is sent to a cluster of two processes at most; one activity waits, two are out, one of them runs."""
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "django_q", "cluster": "default"}}}


def lives(name: str = "there-1", seconds: int = 0) -> None:
    """A process of the cluster has sent a heartbeat."""
    beat_at = factories.now() - timedelta(seconds=seconds)
    factories.WorkerFactory(name=name, cluster="default", queues=["reports"], beat_at=beat_at)


def work() -> None:
    """One row is due, one delivery has not begun, one runs."""
    factories.OutboxRowFactory(queue="reports", visible_after=factories.now() - timedelta(seconds=1))
    factories.WorkItemFactory(queue="reports")
    factories.WorkItemFactory(queue="reports", begun_at=factories.now())
    factories.WorkItemFactory()


def test_health_shows_transport_cluster_and_how_much_is_out() -> None:
    factories.WorkerFactory(queues=[])
    lives("there-1")
    lives("there-2", seconds=50)
    lives("there-3", seconds=70)
    work()
    ran = Ran("health", "--json")
    assert ran.code == 0, ran.data["problems"]
    assert ran.data["transports"] == [
        {
            "queue": "reports",
            "transport": "django_q",
            "cluster": "default",
            "processes": 2,
            "due": 1,
            "unbegun": 1,
            "running": 1,
        }
    ]
    text = "Queue 'reports' is sent to the cluster 'default' by django_q: 2 live processes, 1 not begun, 1 running."
    assert text in Ran("health").out


def test_a_cluster_that_does_not_live_is_a_problem_while_something_waits_for_it() -> None:
    factories.WorkerFactory(queues=[])
    assert Ran("health").code == 0
    work()
    ran = Ran("health", "--json")
    assert ran.code == 1
    [problem] = ran.data["problems"]
    assert problem == (
        "No live process of the cluster 'default', which runs queue 'reports': 2 wait for it. "
        "Start it: manage.py qcluster"
    )


def test_processes_of_clusters_are_no_workers(settings: Any) -> None:
    """They claim nothing and turn nothing: a queue with nothing else has no worker."""
    lives()
    work()
    ran = Ran("health", "--json")
    assert ran.data["workers"] == []
    assert any("No live worker for queue 'reports'" in problem for problem in ran.data["problems"])


def test_other_transports_need_not_show_that_they_live(settings: Any) -> None:
    queue = {"transport": "tests.transports.doubles.Recorded", "cluster": "any"}
    settings.DURABLE = {"QUEUES": {"reports": queue}}
    factories.WorkerFactory(queues=[])
    work()
    assert Ran("health").code == 0


def test_nothing_is_said_where_nothing_is_sent(settings: Any, root: Client, django_assert_num_queries: Any) -> None:
    from durable.flow.looks import clusters

    settings.DURABLE = {}
    factories.WorkerFactory(queues=[])
    with django_assert_num_queries(0):
        assert clusters.states() == []
    assert Ran("health", "--json").data["transports"] == []
    assert "is sent to the cluster" not in root.get(reverse("admin:app_list", args=["durable"])).text


def test_the_apps_page_says_how_much_is_out_where(root: Client) -> None:
    factories.WorkerFactory(queues=[])
    lives()
    WorkItem.objects.all().delete()
    text = root.get(reverse("admin:app_list", args=["durable"])).text
    assert "All clear" in text
    assert "Queue “reports” is sent to the cluster “default”: 0 waiting there, 0 running, processes alive: 1." in text


def test_a_dead_cluster_has_a_card(root: Client) -> None:
    factories.WorkerFactory(queues=[])
    work()
    text = root.get(reverse("admin:app_list", args=["durable"])).text
    assert "waiting for the cluster “default”" in text
    assert "Start it: manage.py qcluster" in text
    lives()
    assert "waiting for the cluster" not in root.get(reverse("admin:app_list", args=["durable"])).text


def test_the_list_of_workers_names_the_cluster_of_a_process(root: Client) -> None:
    lives()
    page = reverse("admin:durable_worker_change", args=["there-1"])
    for address in (reverse("admin:durable_worker_changelist"), page):
        text = root.get(address).text
        assert "default" in text
        assert "reports" in text


def test_the_page_of_a_workflow_and_of_its_row_say_what_has_not_begun(root: Client) -> None:
    waiting = factories.WorkItemFactory(queue="reports")
    running = factories.WorkItemFactory(queue="reports", begun_at=factories.now())
    for item, is_waiting in ((waiting, True), (running, False)):
        page = root.get(reverse("admin:durable_workflow_change", args=[item.workflow_id])).text
        assert ("Sent, not begun" in page) is is_waiting
        row = root.get(reverse("admin:durable_outboxrow_change", args=[item.pk])).text
        assert "Begun" in row
        assert ("not yet" in row) is is_waiting


def test_a_delivery_that_has_not_begun_says_so(root: Client) -> None:
    waiting = factories.WorkItemFactory(queue="reports")
    running = factories.WorkItemFactory(queue="reports", begun_at=factories.now())
    own = factories.WorkItemFactory()
    assert root.get(reverse("admin:durable_workitem_changelist")).text.count("Sent, not begun") == 1
    for item, words, shown in ((waiting, "not yet", True), (running, "Begun", True), (own, "Begun", False)):
        text = root.get(reverse("admin:durable_workitem_change", args=[item.pk])).text
        assert (words in text) is shown
        assert ("Sent by the transport of queue" in text) is shown
