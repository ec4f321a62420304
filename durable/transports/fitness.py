"""System checks: whether the transports that `QUEUES` names can work with the project's settings."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's name
from django.utils.module_loading import import_string

from durable.conf import problems, settings
from durable.queues import DJANGO_Q, SentQueue, main_cluster


def check_transports(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E016: a transport cannot work. W012: it works, with more messages than are needed."""
    if problems():
        return []
    messages: list[CheckMessage] = [
        Error(f"DURABLE['QUEUES'][{queue.name!r}] cannot be sent: {fault}", hint=cure, id="durable.E016")
        for queue in settings.sent_queues.values()
        for fault, cure in (_of_django_q(queue) if queue.transport == DJANGO_Q else _of_class(queue))
    ]
    if not messages and any(queue.transport == DJANGO_Q for queue in settings.sent_queues.values()):
        messages += _retries()
    return messages


def _of_class(queue: SentQueue) -> Iterator[tuple[str, str]]:
    try:
        kind = import_string(queue.transport)
    except ImportError as error:
        yield f"{queue.transport!r} cannot be imported ({error}).", "Name a class with `ping` and `send`."
        return
    for name in ("ping", "send"):
        if not callable(getattr(kind, name, None)):
            yield f"{queue.transport!r} has no function {name!r}.", "See durable.transports.interface.Transport."


def _of_django_q(queue: SentQueue) -> Iterator[tuple[str, str]]:
    if importlib.util.find_spec("django_q") is None:
        yield "django-q2 is not installed.", "pip install 'durable-django[django-q2]'"
        return
    if not apps.is_installed("django_q"):
        yield "'django_q' is not in INSTALLED_APPS.", "Add it, and run migrate."
        return
    chosen = getattr(django_settings, "Q_CLUSTER", None)
    chosen = chosen if isinstance(chosen, dict) else {}
    others = chosen.get("ALT_CLUSTERS")
    names = [main_cluster(chosen), *(others if isinstance(others, dict) else ())]
    if queue.cluster not in names:
        known = ", ".join(map(repr, names))
        yield (
            f"no cluster is called {queue.cluster!r}; Q_CLUSTER knows {known}.",
            "Name one of them as 'cluster', or add it to Q_CLUSTER['ALT_CLUSTERS'].",
        )
    if chosen.get("sync"):
        yield (
            "Q_CLUSTER['sync'] is True, so the processes of the cluster would share database connections.",
            "Leave it out. Tests that run activities at once use durable.testing.",
        )


def _retries() -> list[CheckMessage]:
    chosen = getattr(django_settings, "Q_CLUSTER", {})
    retry, lease_for = chosen.get("retry", 60), settings.lease_for.total_seconds()
    if not isinstance(retry, int | float) or retry >= lease_for:
        return []
    return [
        Warning(
            f"Q_CLUSTER['retry'] is {retry!r}: after so many seconds the broker gives a message again, while it waits "
            "or its handler runs. Durable ignores the second one, but the cluster's processes have to handle it.",
            hint=f"Make it {lease_for:g} or more, and longer than handlers usually take.",
            id="durable.W012",
        )
    ]
