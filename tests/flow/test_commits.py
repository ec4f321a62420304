"""A change recognises its own commit: one with an unknown outcome is not made twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection

from durable.errors import WorkflowClosed, WorkflowNotBlocked
from durable.flow.operator import pause, resume, terminate, unblock
from durable.flow.transactions import transaction
from durable.flow.transactions.commits import ClaimCommit, Commit
from durable.models import Event, StaffAction, Workflow
from durable.outcomes import WorkflowState
from tests.factories import WorkflowFactory

pytestmark = pytest.mark.django_db(transaction=True)

VERBS: dict[str, tuple[Callable[..., WorkflowState], dict[str, Any]]] = {
    "pause": (pause.pause, {}),
    "resume": (resume.resume, {"status": "paused"}),
    "terminate": (terminate.terminate, {}),
    "unblock": (unblock.unblock, {"blocked_reason": "its code has changed"}),
}


class Lost(OperationalError):
    """The connection went away with the commit."""


@pytest.fixture
def unreported(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Lets the next commit succeed without a reply; returns how many have."""
    commit, lost = connection.commit, list[None]()

    def committed_and_lost() -> None:
        commit()
        if not lost:
            lost.append(None)
            raise Lost("server closed the connection unexpectedly")

    monkeypatch.setattr(connection, "commit", committed_and_lost)
    monkeypatch.setattr(transaction, "_FIRST_WAIT", 0)  # no waits between the tries of a transaction
    return lambda: len(lost)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_whose_commit_was_not_reported_is_done_once_and_says_so(name: str, unreported: Any) -> None:
    verb, values = VERBS[name]
    workflow: Workflow = WorkflowFactory(**values)
    events = Event.objects.filter(workflow=workflow).count()
    assert verb(workflow.pk, reason="because").value == f"{name.rstrip('e')}ed"
    assert unreported() == 1
    assert list(StaffAction.objects.values_list("verb", flat=True)) == [name]
    assert Event.objects.filter(workflow=workflow).count() == events + 1


@pytest.mark.parametrize(("name", "refusal"), [("terminate", WorkflowClosed), ("unblock", WorkflowNotBlocked)])
def test_what_somebody_else_has_done_is_not_taken_for_ones_own(
    name: str, refusal: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit was lost on the way to the server, and somebody else is quicker than the next try."""
    verb, values = VERBS[name]
    workflow: Workflow = WorkflowFactory(**values)
    commit, lost = connection.commit, list[None]()

    def quicker() -> None:
        verb(workflow.pk, reason="somebody else")
        connection.close()

    def undone() -> None:
        if lost:
            commit()
            return
        lost.append(None)
        connection.rollback()
        other = threading.Thread(target=quicker)
        other.start()
        other.join()
        raise Lost("server closed the connection unexpectedly")

    monkeypatch.setattr(connection, "commit", undone)
    monkeypatch.setattr(transaction, "_FIRST_WAIT", 0)
    with pytest.raises(refusal):
        verb(workflow.pk, reason="too late")
    assert list(StaffAction.objects.values_list("reason", flat=True)) == ["somebody else"]


def test_a_commit_is_looked_for_only_while_it_is_in_doubt() -> None:
    looks: list[None] = []
    commit: Commit[str] = Commit(lambda _: looks.append(None))
    assert commit.made(connection) is None
    assert looks == []
    commit.sent()
    assert commit.made(connection) is None
    assert commit.made(connection) is None
    assert len(looks) == 1, "Finding nothing ends the doubt."
    commit.sent()
    commit.confirmed()
    assert commit.made(connection) is None
    assert len(looks) == 1


def test_a_claim_that_finds_nothing_stays_in_doubt() -> None:
    """Its look takes no locks: the server may still be committing."""
    commit = ClaimCommit("w")
    commit.sent()
    assert commit.made(connection) is None
    assert commit.in_doubt
    commit.confirmed()
    assert not commit.in_doubt


def test_what_was_found_stays_in_doubt_until_somebody_has_it() -> None:
    """A look whose own transaction fails is made again."""
    commit: Commit[str] = Commit(lambda _: "made")
    commit.sent()
    assert commit.made(connection) == commit.made(connection) == "made"
    assert commit.in_doubt
