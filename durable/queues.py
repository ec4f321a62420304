"""Which transport serves a queue: what `QUEUES` may say, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from durable.errors import KeyInvalid
from durable.kernel.definitions.options import check_text
from durable.kernel.limits import MAX_COUNT, MAX_QUEUE_LENGTH, MAX_SPAN

DATABASE = "database"
"""The transport of a queue whose deliveries the workers run themselves."""

DJANGO_Q = "django_q"

BEGIN_FOR = timedelta(minutes=15)

LONGEST_CLUSTER = 100


@dataclass(frozen=True, slots=True)
class SentQueue:
    """A queue whose deliveries are sent to other processes.

    `cluster` names these processes. A delivery that has not begun within `begin_for` is taken back. `max_out` is how
    many deliveries a worker sends ahead of those that have begun; None: what suits the transport.
    """

    name: str
    transport: str
    cluster: str
    begin_for: timedelta = BEGIN_FOR
    max_out: int | None = None


def sent_queues(chosen: Mapping[str, Mapping[str, Any]], *, main_cluster: str) -> dict[str, SentQueue]:
    """The queues that a transport other than the database serves, by name. `main_cluster` is the cluster of those that
    name none.
    """
    return {
        name: SentQueue(
            name=name,
            transport=options["transport"],
            cluster=options.get("cluster", main_cluster),
            begin_for=options.get("begin_for", BEGIN_FOR),
            max_out=options.get("max_out"),
        )
        for name, options in chosen.items()
        if options.get("transport", DATABASE) != DATABASE
    }


def main_cluster(q_cluster: Any) -> str:
    """The name of the cluster that a plain `manage.py qcluster` starts, by the project's `Q_CLUSTER`."""
    chosen = q_cluster if isinstance(q_cluster, dict) else {}
    return str(chosen.get("cluster_name", chosen.get("name", "default")))


def fault_of(value: Any) -> str:
    """Why a project's `QUEUES` is not allowed, as the end of the sentence "It has to be …"; empty if it is."""
    wanted = "a dict from names of queues to dicts of options"
    if not isinstance(value, dict):
        return wanted
    for name, options in value.items():
        try:
            check_text("queue", name, MAX_QUEUE_LENGTH)
        except KeyInvalid as error:
            return f"{wanted}; {error}"
        if not isinstance(options, dict):
            return f"{wanted}; {name!r} has {options!r}"
        if fault := _fault_of_options(options):
            return f"{wanted}; of {name!r}, {fault}"
    return ""


def _fault_of_options(options: dict[Any, Any]) -> str:
    transport = options.get("transport", DATABASE)
    if transport == DATABASE:
        if more := [key for key in options if key != "transport"]:
            return f"{more[0]!r} is an option of other transports than 'database'"
        return ""
    if transport != DJANGO_Q and not (isinstance(transport, str) and "." in transport.strip(".")):
        return f"'transport' is {transport!r}, and may be 'database', 'django_q' or the dotted path of a class"
    for key, option in options.items():
        if key == "transport":
            continue
        check = _OPTIONS.get(key)
        if check is None:
            return f"{key!r} is not an option; there are 'transport', {', '.join(map(repr, _OPTIONS))}"
        if wanted := check(option):
            return f"{key!r} is {option!r}, and has to be {wanted}"
    return ""


def _cluster(value: Any) -> str:
    fits = isinstance(value, str) and 0 < len(value) <= LONGEST_CLUSTER and value.isprintable()
    return "" if fits else f"the name of a cluster, {LONGEST_CLUSTER} printable characters at most"


def _begin_for(value: Any) -> str:
    fits = isinstance(value, timedelta) and timedelta() < value <= MAX_SPAN
    return "" if fits else f"a datetime.timedelta above zero, of {MAX_SPAN.days:,} days at most"


def _max_out(value: Any) -> str:
    fits = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT
    return "" if fits else f"a whole number from 1 to {MAX_COUNT:,}"


_OPTIONS = {"cluster": _cluster, "begin_for": _begin_for, "max_out": _max_out}
