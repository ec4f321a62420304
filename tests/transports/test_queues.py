"""Which transport serves a queue: what `QUEUES` may say, and what the system checks say of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks

from durable.conf import problems
from durable.conf import settings as current
from durable.queues import SentQueue
from durable.transports import chosen
from tests.transports import doubles

TINY = "tests.transports.doubles.Subprocess"


def told(ids: tuple[str, ...] = ("durable.E016", "durable.W012")) -> list[tuple[str, str]]:
    """What the checks say of transports."""
    return [(message.id or "", f"{message.msg} {message.hint}") for message in run_checks() if message.id in ids]


def test_a_queue_of_the_database_is_not_sent(settings: Any) -> None:
    settings.DURABLE = {"QUEUES": {"a": {}, "b": {"transport": "database"}}}
    assert dict(current.sent_queues) == {}


def test_options_have_defaults(settings: Any) -> None:
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, "name": "shop"}
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "django_q"}}}
    assert current.sent_queues["reports"] == SentQueue("reports", "django_q", "shop", timedelta(minutes=15), None)


@pytest.mark.parametrize(
    ("q_cluster", "name"),
    [({}, "default"), ({"name": "shop"}, "shop"), ({"name": "shop", "cluster_name": "fast"}, "fast")],
)
def test_without_a_name_it_is_the_cluster_that_a_plain_qcluster_starts(
    settings: Any, q_cluster: dict[str, str], name: str
) -> None:
    settings.Q_CLUSTER = q_cluster
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "django_q"}}}
    assert current.sent_queues["reports"].cluster == name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("fast", "'reports' has 'fast'"),
        ({"transport": "smoke"}, "'transport' is 'smoke', and may be 'database', 'django_q' or the dotted path"),
        ({"transport": 3}, "'transport' is 3"),
        ({"cluster": "fast"}, "'cluster' is an option of other transports than 'database'"),
        ({"transport": "django_q", "speed": 1}, "'speed' is not an option; there are 'transport', 'cluster'"),
        ({"transport": "django_q", "cluster": ""}, "'cluster' is '', and has to be the name of a cluster"),
        ({"transport": "django_q", "begin_for": 5}, "'begin_for' is 5, and has to be a datetime.timedelta above"),
        ({"transport": "django_q", "begin_for": timedelta()}, "'begin_for' is datetime.timedelta(0)"),
        ({"transport": "django_q", "max_out": 0}, "'max_out' is 0, and has to be a whole number from 1"),
        ({"transport": "django_q", "max_out": True}, "'max_out' is True"),
    ],
)
def test_options_that_are_wrong_are_named(settings: Any, options: Any, words: str) -> None:
    settings.DURABLE = {"QUEUES": {"reports": options}}
    [problem] = problems()
    assert (problem.id, words in problem.cure) == ("durable.E002", True), problem


def test_a_queue_that_can_be_sent_needs_no_words(settings: Any) -> None:
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "django_q"}, "tiny": {"transport": TINY, "cluster": "x"}}}
    assert told() == []


@pytest.mark.parametrize(
    ("options", "q_cluster", "words"),
    [
        ({"cluster": "fast"}, {}, "no cluster is called 'fast'; Q_CLUSTER knows 'default'."),
        ({"cluster": "fast"}, {"ALT_CLUSTERS": {"slow": {}}}, "knows 'default', 'slow'."),
        ({}, {"sync": True}, "Q_CLUSTER['sync'] is True"),
    ],
)
def test_a_cluster_that_can_not_serve_is_an_error(
    settings: Any, options: dict[str, str], q_cluster: dict[str, Any], words: str
) -> None:
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, **q_cluster}
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "django_q", **options}}}
    [(id, text)] = told()
    assert (id, words in text) == ("durable.E016", True), text


def test_a_cluster_of_another_name_is_known_by_its_entry(settings: Any) -> None:
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, "ALT_CLUSTERS": {"fast": {"workers": 5}}}
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "django_q", "cluster": "fast"}}}
    assert told() == []
    assert chosen.max_out(current.sent_queues["reports"]) == 20


def test_django_q2_has_to_be_among_the_apps(settings: Any) -> None:
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "django_q"}}}
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_q"]
    [(_, text)] = told()
    assert "'django_q' is not in INSTALLED_APPS" in text


@pytest.mark.parametrize(
    ("transport", "words"),
    [
        ("tests.transports.doubles.Nothing", "cannot be imported"),
        ("tests.nowhere.Nothing", "cannot be imported"),
        ("tests.transports.doubles.RECEIVE", "has no function 'ping'"),
    ],
)
def test_a_class_that_is_no_transport_is_an_error(settings: Any, transport: str, words: str) -> None:
    settings.DURABLE = {"QUEUES": {"reports": {"transport": transport, "cluster": "x"}}}
    assert words in told()[0][1]


def test_a_broker_that_repeats_messages_while_handlers_run_is_a_warning(settings: Any) -> None:
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, "retry": 2}
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "django_q"}}}
    [(id, text)] = told()
    assert (id, "Q_CLUSTER['retry'] is 2" in text) == ("durable.W012", True)


def test_settings_of_a_cluster_that_nothing_is_sent_to_are_nobodys_business(settings: Any) -> None:
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, "retry": 2, "sync": True}
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "database"}}}
    assert told() == []


@pytest.mark.parametrize(
    ("options", "q_cluster", "most"),
    [
        ({"max_out": 7}, {"workers": 3}, 7),
        ({}, {"workers": 3}, 12),
        ({"transport": TINY, "cluster": "x"}, {}, 64),
    ],
)
def test_how_much_is_sent_ahead(settings: Any, options: dict[str, Any], q_cluster: dict[str, Any], most: int) -> None:
    """Four for each worker of the cluster; where that is not known, for each handler that a worker would run."""
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, **q_cluster}
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "django_q", **options}}}
    assert chosen.max_out(current.sent_queues["reports"]) == most


def test_a_transport_is_made_with_the_name_of_its_cluster(settings: Any) -> None:
    settings.DURABLE = {"QUEUES": {"reports": {"transport": "tests.transports.doubles.Recorded", "cluster": "fast"}}}
    made: Callable[..., Any] = chosen.make(current.sent_queues["reports"])  # type: ignore[assignment]
    assert isinstance(made, doubles.Recorded)
    doubles.Recorded.reset()
    made.ping()
    assert doubles.Recorded.pings == ["fast"]
