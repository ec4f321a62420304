"""The crash points find what they are there to find: the product is broken here, and they tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable.flow.delivery import acknowledge
from durable.flow.transactions import transaction
from durable.flow.upkeep import reconcile
from durable.outcomes import ReconcileReport
from durable.store.deliveries import work_items
from durable.store.runs import messages
from tests.crashpoints import trial
from tests.crashpoints.wire import Kind, Place, Point, of

pytestmark = pytest.mark.django_db(transaction=True)


def first(kind: Kind, where: Callable[[Place], bool]) -> Point:
    """The first point at such a place."""
    return Point(kind, 1, where)


def test_a_verb_that_commits_in_two_halves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An acknowledgement that closes the row first, and tells the workflow afterwards."""
    kept: list[Any] = []
    whole, insert = acknowledge.acknowledge, messages.insert

    def in_two_halves(endings: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(messages, "insert", lambda connection, new: kept.extend(new))
            outcomes = whole(endings)
        second, kept[:] = list(kept), []
        transaction.own(lambda connection: insert(connection, second))
        return outcomes

    monkeypatch.setattr(acknowledge, "acknowledge", in_two_halves)
    halfway = first(Kind.GONE, lambda place: "INTO durable_message" in place.text and not place.verb)
    with pytest.raises(AssertionError, match=r"Half done where the process died.*done, and nobody was told"):
        trial.perform(halfway)


def test_an_acknowledgement_that_is_applied_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that stays good behind its first use, where the commit of the first was not reported."""
    lock, known = work_items.lock, {}

    def good_for_ever(connection: Any, deliveries: Any) -> Any:
        wanted = set(deliveries)
        known.update(lock(connection, wanted))
        return {delivery: known[delivery] for delivery in wanted if delivery in known}

    monkeypatch.setattr(work_items, "lock", good_for_ever)
    with pytest.raises(AssertionError, match="with closing events at"):
        trial.perform(first(Kind.UNREPORTED, of("acknowledge.acknowledge")))


def test_a_transactional_effect_that_is_repeated_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that is run again behind a commit that was not reported."""
    lock, known = work_items.lock, {}

    def good_for_ever(connection: Any, deliveries: Any) -> Any:
        wanted = set(deliveries)
        known.update(lock(connection, wanted))
        return {delivery: known[delivery] for delivery in wanted if delivery in known}

    monkeypatch.setattr(work_items, "lock", good_for_ever)
    monkeypatch.setattr(work_items, "holds", lambda connection, row_id, token: 1)
    with pytest.raises(AssertionError, match="2 rows of the ledger say"):
        trial.perform(first(Kind.UNREPORTED, of("acknowledge.transactional")))


def test_work_that_nobody_takes_up_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reconciler that does nothing for what a dead process held."""
    dead = first(Kind.GONE, of("acknowledge.acknowledge"))
    monkeypatch.setattr(reconcile, "reconcile", lambda: ReconcileReport())
    with pytest.raises(AssertionError, match="not over"):
        trial.perform(dead)
