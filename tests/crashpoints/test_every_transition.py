"""The story uses every transition: what it does not call is listed here, with the reason, or the suite fails."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

import pytest
from django.db import connection

import durable.flow
import durable.store
from tests.crashpoints import survey, trial
from tests.crashpoints.wire import Kind, Point, of

pytestmark = pytest.mark.django_db(transaction=True)

NO_TRANSITIONS = {
    *(
        "durable.flow.looks.look",
        "durable.flow.looks.prove",
        *("durable.flow.looks.sampling", "durable.store.operators.shapes", "durable.flow.transactions.troubles"),
        *("durable.flow.looks.single", "durable.store.operators.singles"),
        *("durable.flow.looks.sampling", "durable.store.operators.shapes"),
        *("durable.flow.looks.patching", "durable.store.runs.patches"),
        "durable.store.operators.causes",
        *("durable.flow.looks.measures", "durable.store.operators.measures"),
        "durable.store.operators.reads",
        *("durable.flow.looks.clusters", "durable.store.operators.sent"),
        *("durable.flow.looks.measures", "durable.store.operators.measures"),
        "durable.store.operators.proof",
    ),
    *("durable.flow.transactions.transaction", "durable.store.connections.sql"),
    *(
        "durable.flow.looks.probe",
        "durable.flow.delivery.doubts",
        *("durable.flow.transactions.commits", "durable.store.connections.new_rows"),
        "durable.store.deliveries.made",
    ),
    *(
        "durable.flow.transactions.faults",
        *("durable.store.operators.naming", "durable.store.operators.causes"),
        "durable.store.connections.unpooled",
        "durable.flow.operator.record_view",
    ),
}
"""Modules that change nothing: views of what is there, notes of them, and the tools of those that do."""

READS = {
    *(
        "durable.flow.delivery.claim.suspects_due",
        "durable.flow.delivery.claim.made_in_doubt",
        "durable.flow.delivery.claim.anything_to_send",
        *("durable.flow.delivery.begin.unbegun", "durable.store.deliveries.beats.of_cluster"),
        "durable.flow.operator.redrive.preview_redrive",
        "durable.flow.operator.redrive.verdicts",
    ),
    *(
        "durable.flow.looks.selecting.facts",
        "durable.store.operators.redrives.facts",
        "durable.store.operators.redrives.dead_letters",
    ),
    *(
        "durable.store.operators.redrives.matching",
        "durable.store.runs.history.read",
        "durable.store.runs.history.last_of",
        "durable.flow.turns.preparing.unexpected",
    ),
    *("durable.store.runs.due.among", "durable.flow.audit.auditing.asked_through"),
    *(
        "durable.store.texts.failures.read",
        "durable.store.texts.failures.read_block",
        "durable.store.texts.failures.read_reason",
    ),
    *(
        "durable.store.runs.messages.standing",
        "durable.store.runs.messages.is_waiting",
        "durable.store.runs.messages.asked_to_cancel",
        "durable.store.texts.failures.read_born",
    ),
    *(
        "durable.store.runs.history.sizes",
        "durable.store.texts.payloads.read",
        "durable.store.texts.payloads.workflows_after",
    ),
    *(
        "durable.store.runs.due.rows",
        "durable.flow.delivery.acknowledge.was_made",
        "durable.store.runs.history.fitting",
    ),
}
"""Functions that change nothing, in modules that do."""

BY_HAND = {
    "durable.flow.operator.reencrypt.reencrypt",
    "durable.flow.operator.reencrypt.workflows_after",
    "durable.store.texts.payloads.replace",
}
"""What nobody but an operator calls, under a codec that the story does not have: `tests/crypto/test_broken_off.py` ends
it before each of its statements.
"""

ONLY_ON = {
    "postgresql": {"durable.store.connections.wakeups.tell"},
    "sqlite": {
        "durable.store.deliveries.claims.anything_due",
        "durable.store.runs.inbox.unchanged",
        "durable.store.runs.workflows.look_for_turn",
    },
}
"""What the other database has no use for."""

IN_DOUBT = ("claim.claim", "terminate.terminate")
"""Verbs that know their own commit again: what they ask for that runs only where it was not reported."""


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """All modules below a package, its folders included."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.ispkg:
            yield importlib.import_module(found.name)


def public_functions(module: ModuleType) -> dict[Any, str]:
    """The code of a module's own public functions, with their names."""
    return {
        inspect.unwrap(value).__code__: f"{module.__name__}.{name}"
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def called() -> set[Any]:
    """The code that ran in the undisturbed story, and behind some commits that were not reported."""
    ran: set[Any] = set()
    in_doubt = [Point(Kind.UNREPORTED, 1, of(verb)) for verb in IN_DOUBT]

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            ran.add(frame.f_code)

    sys.setprofile(watch)
    try:
        for point in (None, *in_doubt):
            trial.perform(point)
    finally:
        sys.setprofile(None)
    return ran


def test_every_verb_and_every_transition_of_the_store_is_part_of_the_story() -> None:
    """Nothing new comes to `durable/flow` or `durable/store` without crash points of its own."""
    ran = called()
    missing = {
        name
        for package in (durable.flow, durable.store)
        for module in modules(package)
        if module.__name__ not in NO_TRANSITIONS
        for code, name in public_functions(module).items()
        if code not in ran
    }
    elsewhere = set().union(*(names for vendor, names in ONLY_ON.items() if vendor != connection.vendor))
    assert sorted(missing - READS - BY_HAND - elsewhere) == []


def test_every_verb_that_writes_has_statements_and_a_commit_among_the_points() -> None:
    wire = survey.undisturbed().wire
    own = {place.verb for place in wire.commit_places}
    at_statements = {place.verb for place in wire.statement_places}
    assert at_statements >= own
    assert own >= OWN
    assert at_statements >= JOINED


OWN = {
    *("claim.claim_to_send", "begin.begin"),
    *("turn.turn", "claim.claim", "claim.claim_suspect", "acknowledge.acknowledge", "acknowledge.transactional"),
    *("abandon.abandon", "release.release", "postpone.postpone", "renew.renew", "reconcile.reconcile"),
    *("settle.settle_closed", "redrive.redrive", "redrive.redrive_many", "discard.discard", "discard.discard_many"),
    *("terminate.terminate", "pause.pause", "resume.resume", "unblock.unblock", "unblock.after_deploy"),
    *("poison.count", "beat.beat", "beat.gone"),
}
JOINED = {"start.start", "enqueue.enqueue", "signal.signal", "cancel.cancel"}
