"""Crashes before the commit, at it, and behind it: every verb is whole or was not, and can be called again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection

from durable.flow.transactions import faults
from durable.flow.transactions import transaction as own
from tests.flow.driver import Driver
from tests.flow.scenarios import JOINED, ONE_TRY, RENEWING, SCENARIOS, SILENT, Act
from tests.flow.state import everything
from tests.ledger.models import Entry

pytestmark = pytest.mark.django_db(transaction=True)


class Crash(Exception):
    """The process ends here, as far as the transaction can see."""


every_verb = pytest.mark.parametrize("prepare", SCENARIOS.values(), ids=SCENARIOS)


@contextmanager
def crash_at(nth: int, seen: list[str]) -> Iterator[None]:
    """Every statement from the `nth` on, counted from 0, is the process's last."""

    def wrap(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if len(seen) >= nth:
            raise Crash(sql)
        seen.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrap):
        yield


def state() -> dict[str, list[Any]]:
    """What may not be half: the engine's rows and the handlers' own."""
    return {**everything(), "Entry": list(Entry.objects.values_list("label"))}


@every_verb
def test_a_crash_at_any_statement_leaves_all_as_it_was_and_the_verb_can_be_called_again(
    driver: Driver, prepare: Callable[[Driver], Act]
) -> None:
    """Statement for statement. A verb of several transactions may have done the first of them, whole."""
    act = prepare(driver)
    states = [state()]
    for nth in range(200):
        seen: list[str] = []
        try:
            with crash_at(nth, seen):
                act()
        except Crash:
            if states[-1] != (now := state()):
                states.append(now)
            continue
        break
    assert nth >= len(seen) > 0
    final = state()
    kept = [each for each in states[1:] if each != final]
    assert kept == [], "A crash left something half done."
    if prepare not in SILENT:
        assert final != states[0]


class Commits:
    """Lets one commit fail, before it was done or behind it."""

    def __init__(self) -> None:
        self._wrapper: Any = own.engine_connection()
        self._real = self._wrapper.commit
        vars(self._wrapper)["commit"] = self._commit
        self._fails = ""

    def fail_once(self) -> None:
        self._fails = "before"

    def fail_once_behind_it(self) -> None:
        self._fails = "behind"

    def _commit(self) -> None:
        fails, self._fails = self._fails, ""
        if fails != "before":
            self._real()
        if fails:
            raise OperationalError("server closed the connection unexpectedly")

    def restore(self) -> None:
        del vars(self._wrapper)["commit"]


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Commits]:
    monkeypatch.setattr(own, "_FIRST_WAIT", 0)  # no waits between the tries of a transaction
    commits = Commits()
    yield commits
    commits.restore()


OWNED = {name: prepare for name, prepare in SCENARIOS.items() if name not in JOINED}
owned = pytest.mark.parametrize("prepare", OWNED.values(), ids=OWNED)


@owned
def test_a_commit_that_failed_is_tried_again_or_raised_with_nothing_changed(
    driver: Driver, commits: Commits, prepare: Callable[[Driver], Act]
) -> None:
    """Own transactions are repeated; acknowledgements have a schedule of their own, and are the worker's to repeat."""
    act = prepare(driver)
    before = state()
    commits.fail_once()
    if prepare in ONE_TRY:
        with pytest.raises(OperationalError):
            act()
        assert state() == before
    act()
    if prepare not in SILENT:
        assert state() != before


@owned
def test_a_commit_that_did_not_say_that_it_was_done_is_not_done_twice(
    driver: Driver, commits: Commits, prepare: Callable[[Driver], Act], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try finds what the first has done, and the history is written once."""
    act = prepare(driver)
    done: list[dict[str, list[Any]]] = []
    commits.fail_once_behind_it()
    real = faults.classify

    def look(error: BaseException) -> Any:
        if not done and isinstance(error, OperationalError):
            connection.close()
            done.append(state())
        return real(error)

    monkeypatch.setattr(own, "classify", look)
    if prepare in ONE_TRY:
        with pytest.raises(OperationalError):
            act()
    act()
    assert done
    if prepare in RENEWING:
        # Renewed again, a moment later: the only repetition that is meant.
        for items in (done[0]["WorkItem"], (after := state())["WorkItem"]):
            for item in items:
                item.pop("locked_until")
        assert after == done[0]
    else:
        assert state() == done[0]
