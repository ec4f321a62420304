"""*Needs attention*, at the top of the app's index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, InterfaceError
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from durable.admin.lists.room import NOTHING_SHOWN
from durable.admin.lists.scoping import readings
from durable.admin.words import wording
from durable.flow.looks import clusters, look
from durable.logs import get_logger, words
from durable.scope import Scope
from durable.store.operators.reads import COUNT_CAP

logger = get_logger("durable.admin")


@dataclass(frozen=True, slots=True)
class Card:
    """One thing that needs attention. `figure` is the large number, `text` explains it."""

    figure: str
    label: str
    text: str
    tone: str
    address: str = ""
    go: str = ""


@dataclass(frozen=True, slots=True)
class Triage:
    """Everything that needs attention; without cards, all is clear. `calm` are the facts that are shown then."""

    cards: Sequence[Card]
    calm: Sequence[str]
    failed: str = ""
    """Why nothing is known, in words."""


def triage(user: Any, site_name: str, scope: Scope) -> Triage | None:
    """The part that this user may see: each card needs the permission to view its rows. None: nothing at all."""
    may = {
        model: user.has_perm(f"durable.view_{model}")
        for model in ("deadletter", "workflow", "workitem", "worker", "outboxrow")
    }
    if not any(may.values()):
        return None
    try:
        health = look.health(readings(scope))
        # Numbers of whole queues are for those who may see all rows.
        sent = clusters.states() if scope.is_whole and (may["worker"] or may["outboxrow"]) else []
    except (DatabaseError, InterfaceError) as error:
        logger.warning("admin.triage_failed", error=words(error))
        return Triage((), (), failed=_("This could not be looked up: the database did not answer."))
    if scope.fault:
        return Triage((), (), failed=str(NOTHING_SHOWN))
    cards: list[Card] = []
    if may["deadletter"] and health.dead_letters:
        cards.append(
            Card(
                _count(health.dead_letters),
                ngettext("dead letter", "dead letters", health.dead_letters),
                _("These will not be retried until someone acts."),
                "bad",
                _address("deadletter", site_name),
                _("Review"),
            )
        )
    if may["workflow"] and health.blocked:
        cards.append(
            Card(
                _count(health.blocked),
                ngettext("blocked workflow", "blocked workflows", health.blocked),
                _("The deployed code no longer matches their history. Deploy code that does, or unblock them."),
                "bad",
                _address("workflow", site_name, "?blocked=yes"),
                _("Review"),
            )
        )
    if may["workflow"] and health.failed:
        cards.append(
            Card(
                _count(health.failed),
                ngettext("workflow failed since yesterday", "workflows failed since yesterday", health.failed),
                _("They failed or timed out within the last 24 hours. Their pages say why."),
                "bad",
                _address("workflow", site_name, "?status=failed"),
                _("Review"),
            )
        )
    if may["workitem"] and health.expired:
        cards.append(
            Card(
                _count(health.expired),
                ngettext("stale claim", "stale claims", health.expired),
                _(
                    "The worker's lease has expired, and no other worker has recovered the delivery yet. A live "
                    "worker does that soon."
                ),
                "wait",
                _address("workitem", site_name),
                _("Review"),
            )
        )
    without = {state.queue for state in health.unserved}
    if may["worker"] or may["outboxrow"]:
        cards += _queues(health, site_name, may, without)
        cards += [_dead_cluster(state, site_name, may) for state in sent if state.is_dead]
    if may["workflow"]:
        cards += _turns(health, site_name, without)
    return Triage(cards, [*_calm(health, may), *(_sent(state) for state in sent)])


def _dead_cluster(state: clusters.SentState, site_name: str, may: dict[str, bool]) -> Card:
    return Card(
        _count(state.due + state.unbegun),
        _("waiting for the cluster “%(cluster)s”") % {"cluster": wording.name(state.queue.cluster, 40)},
        _("Queue “%(queue)s” is sent there, and none of its processes is alive. Start it: manage.py qcluster")
        % {"queue": wording.name(state.queue.name, 40)},
        "bad",
        _address("worker", site_name) if may["worker"] else "",
        _("Workers"),
    )


def _sent(state: clusters.SentState) -> str:
    return _(
        "Queue “%(queue)s” is sent to the cluster “%(cluster)s”: %(unbegun)s waiting there, %(running)s running, "
        "processes alive: %(processes)s."
    ) % {
        "queue": wording.name(state.queue.name, 40),
        "cluster": wording.name(state.queue.cluster, 40),
        "unbegun": _count(state.unbegun),
        "running": _count(state.running),
        "processes": wording.number(state.processes),
    }


def _queues(health: look.Health, site_name: str, may: dict[str, bool], without: set[str]) -> list[Card]:
    cards = [
        Card(
            _count(state.due),
            _("due in “%(queue)s”, and no worker") % {"queue": wording.name(state.queue, 40)},
            _no_worker(health, wording.span(health.at - state.oldest_due, units=1)),
            "bad",
            _address("worker", site_name) if may["worker"] else "",
            _("Workers"),
        )
        for state in health.unserved
    ]
    served = [state for state in health.queues if state.queue not in without]
    oldest = min(served, key=lambda state: state.oldest_due, default=None)
    if oldest is not None and health.at - oldest.oldest_due > look.LATE_AFTER:
        cards.append(
            Card(
                wording.span_alone(health.at - oldest.oldest_due),
                _("wait of the oldest due row"),
                _("Queue “%(queue)s” has workers, but they do not keep up: %(count)s are due.")
                % {"queue": wording.name(oldest.queue, 40), "count": _count(oldest.due)},
                "wait",
                _address("outboxrow", site_name, "?state=waiting") if may["outboxrow"] else "",
                _("Review"),
            )
        )
    return cards


def _turns(health: look.Health, site_name: str, without: set[str]) -> list[Card]:
    """Workflows that can run but are not turned, in queues that have workers."""
    oldest = min(
        (state for state in health.turns if state.queue not in without),
        key=lambda state: state.oldest_due,
        default=None,
    )
    if oldest is None or health.at - oldest.oldest_due <= look.LATE_AFTER:
        return []
    return [
        Card(
            wording.span_alone(health.at - oldest.oldest_due),
            _("wait of the oldest workflow that can run"),
            _("Queue “%(queue)s” has workers, and %(count)s of its workflows can run, but no worker is running them.")
            % {"queue": wording.name(oldest.queue, 40), "count": _count(oldest.due)},
            "wait",
            _address("workflow", site_name),
            _("Review"),
        )
    ]


def _no_worker(health: look.Health, waited: str) -> str:
    if health.silent:
        text = _(
            "No live worker serves this queue; the oldest row has waited %(span)s. A silent worker is waiting "
            "for the database."
        )
        return text % {"span": waited}
    text = _("No live worker serves this queue; the oldest row has waited %(span)s. Start one: manage.py runworker")
    return text % {"span": waited}


def _calm(health: look.Health, may: dict[str, bool]) -> list[str]:
    facts = []
    if may["worker"]:
        count = len(health.workers)
        facts.append(
            ngettext("%(count)s worker is alive.", "%(count)s workers are alive.", count)
            % {"count": wording.number(count)}
            if count
            else _("No worker has sent a heartbeat lately; nothing is due either.")
            if health.silent
            else _("No worker is running; nothing is due either.")
        )
    if may["outboxrow"]:
        due = sum(state.due for state in health.queues)
        due_words = ngettext("%(count)s activity is due right now.", "%(count)s activities are due right now.", due) % {
            "count": _count(due)
        }
        facts.append(due_words if due else _("No work is waiting."))
    return facts


def _count(number: int) -> str:
    return f"{wording.number(COUNT_CAP)}+" if number >= COUNT_CAP else wording.number(number)


def _address(model: str, site_name: str, query: str = "") -> str:
    """The address of a list; empty where a site has left that room out."""
    try:
        return reverse(f"admin:durable_{model}_changelist", current_app=site_name) + query
    except NoReverseMatch:
        return ""
