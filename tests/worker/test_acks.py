"""The schedule of acknowledgements (specification A2), with a clock that counts and a store that fails as told."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import IntegrityError

from durable.flow.delivery import abandon, acknowledge, postpone
from durable.kernel.texts.failure import describe
from durable.outcomes import (
    AckOutcome,
    Cancelled,
    Cause,
    Claim,
    Completed,
    Ending,
    Failed,
    GiveBack,
    RetryLater,
)
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import CommitFailed, GiveUp, Outcome, PutOff
from durable.worker.loops.acks import Acks
from durable.worker.threads import hygiene
from tests.worker.benches import FAILURE, MS, retryable
from tests.worker.making import CREATED, CountedTime, claim, delivery


class Store:
    """Answers acknowledgements as told, and keeps every call."""

    def __init__(self) -> None:
        self.acknowledged: list[list[Ending]] = []
        self.given_back: list[tuple[str, Claim, dict[str, Any]]] = []
        self.fails: Callable[[Sequence[Ending]], Exception | None] = lambda endings: None
        self.missing: set[int] = set()
        self.give_back_fails: Exception | None = None

    def acknowledge(self, endings: Sequence[Ending]) -> list[AckOutcome]:
        self.acknowledged.append(list(endings))
        if (error := self.fails(endings)) is not None:
            raise error
        return [
            AckOutcome.TOKEN_MISSING if e.claim.row_id in self.missing else AckOutcome.ACKNOWLEDGED for e in endings
        ]

    def abandon(self, claim: Claim, **how: Any) -> GiveBack:
        return self._give_back("abandon", claim, how)

    def postpone(self, claim: Claim, **how: Any) -> GiveBack:
        return self._give_back("postpone", claim, how)

    def _give_back(self, verb: str, claim: Claim, how: dict[str, Any]) -> GiveBack:
        self.given_back.append((verb, claim, how))
        if self.give_back_fails is not None:
            raise self.give_back_fails
        return GiveBack.PENDING

    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.acknowledged]

    def tries_of(self, row_id: int) -> int:
        return sum(any(e.claim.row_id == row_id for e in batch) for batch in self.acknowledged)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    store = Store()
    monkeypatch.setattr(acknowledge, "acknowledge", store.acknowledge)
    monkeypatch.setattr(abandon, "abandon", store.abandon)
    monkeypatch.setattr(postpone, "postpone", store.postpone)
    monkeypatch.setattr(hygiene, "drop", lambda: None)
    monkeypatch.setattr(hygiene, "connect", lambda: None)
    return store


class Bench:
    """An ack thread's body, run in the test."""

    def __init__(self) -> None:
        self.time = CountedTime()
        self.ended: list[Delivery] = []
        self.acks = Acks(ended=lambda delivery, outcome: self.ended.append(delivery), timing=self.time)

    def run(self, *outcomes: Outcome) -> None:
        for outcome in outcomes:
            self.acks.submit(Delivery(outcome.claim), outcome)
        self.acks.finish(0)
        self.acks.run()
        assert self.acks.pending == 0


@pytest.fixture
def bench() -> Bench:
    return Bench()


def failing(times: int, error: Callable[[], Exception] = retryable) -> Callable[[Sequence[Ending]], Exception | None]:
    left = [times]

    def fails(endings: Sequence[Ending]) -> Exception | None:
        left[0] -= 1
        return error() if left[0] >= 0 else None

    return fails


ENDINGS: list[Ending] = [
    Completed(claim(), '{"ok":1}'),
    Failed(claim(), FAILURE, Cause.APPLICATION_ERROR, CREATED),
    RetryLater(claim(), FAILURE, Cause.APPLICATION_ERROR, CREATED, 1_000_000),
    Cancelled(claim()),
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
def test_four_retryable_failures_and_success_on_the_fifth(store: Store, bench: Bench, ending: Ending) -> None:
    """Specification A5.1, A5.4, A5.5: the waits exactly, the same ending each time, no abandon."""
    store.fails = failing(4)
    bench.run(ending)
    assert bench.time.waits == [100 * MS, 200 * MS, 400 * MS, 800 * MS]
    assert store.acknowledged == [[ending]] * 5
    assert store.given_back == []
    assert len(bench.ended) == 1


def test_five_retryable_failures_abandon_once_with_the_same_token_and_100_ms(store: Store, bench: Bench) -> None:
    """Specification A5.2."""
    store.fails = failing(5)
    bench.run(ENDINGS[0])
    assert bench.time.waits == [100 * MS, 200 * MS, 400 * MS, 800 * MS]
    assert store.sizes() == [1] * 5
    [(verb, given, how)] = store.given_back
    assert (verb, given.token) == ("abandon", ENDINGS[0].claim.token)
    assert how["delay"] == timedelta(milliseconds=100)
    assert how["cause"] is Cause.ACK_ABANDONED
    assert how["failure"].message == describe(retryable()).message
    assert len(bench.ended) == 1


@pytest.mark.parametrize("error", [IntegrityError("unique"), RuntimeError("unheard of"), ValueError("not JSON")])
def test_a_permanent_error_is_one_ack_and_one_abandon_without_a_wait(
    store: Store, bench: Bench, error: Exception
) -> None:
    """Specification A5.3, and A3: what is unknown is permanent."""
    store.fails = failing(1, lambda: error)
    bench.run(ENDINGS[0])
    assert bench.time.waits == []
    assert store.sizes() == [1]
    assert [verb for verb, _, _ in store.given_back] == ["abandon"]


def test_a_missing_token_at_the_second_try_stops_and_gives_nothing_back(store: Store, bench: Bench) -> None:
    """Specification A5.6 as the ack thread sees it: committed without saying so."""
    store.fails = failing(1)
    store.missing = {1}
    bench.run(ENDINGS[0])
    assert store.sizes() == [1, 1]
    assert store.given_back == []
    assert len(bench.ended) == 1


def test_an_abandonment_that_fails_too_ends_the_renewal(store: Store, bench: Bench) -> None:
    store.fails = failing(5)
    store.give_back_fails = retryable()
    bench.run(ENDINGS[0])
    assert len(store.given_back) == 1
    assert len(bench.ended) == 1


def test_what_can_neither_be_acknowledged_nor_given_back_is_counted(store: Store, bench: Bench) -> None:
    """Nobody has it until its lease expires, so a burst must not say that everything is done."""
    store.fails = failing(1, IntegrityError)
    store.give_back_fails = retryable()
    bench.run(Completed(claim(), "1"))
    assert bench.acks.left_to_leases == 1
    store.give_back_fails = None
    bench = Bench()
    bench.run(GiveUp(claim(), Cause.TRANSPORT_DOWN, FAILURE, OSError()))
    assert bench.acks.left_to_leases == 0


def test_a_moment_without_memory_leaves_no_delivery_to_its_lease(store: Store, bench: Bench) -> None:
    """Acknowledged or given back as soon as there is some, within five tries of either."""
    give_up = GiveUp(claim(1), Cause.TRANSPORT_DOWN, FAILURE, MemoryError())
    errors = iter([MemoryError()] * 4 + [None])
    abandoned = store.abandon

    def abandon_when_there_is_memory(claim: Claim, **how: Any) -> GiveBack:
        store.give_back_fails = next(errors)
        return abandoned(claim, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(abandon, "abandon", abandon_when_there_is_memory)
        bench.run(give_up)
    assert len(store.given_back) == 5
    assert bench.time.waits == [100 * MS, 200 * MS, 400 * MS, 800 * MS]
    assert bench.acks.left_to_leases == 0
    assert bench.ended == [bench.ended[0]]

    store.give_back_fails = MemoryError()
    bench = Bench()
    bench.run(give_up)
    assert bench.acks.left_to_leases == 1
    assert len(store.given_back) == 10


def test_what_is_due_at_the_same_moment_shares_a_transaction(store: Store, bench: Bench) -> None:
    bench.run(*(Completed(claim(row), "1") for row in range(1, 101)))
    assert store.sizes() == [100]
    assert bench.time.waits == []


def test_one_bad_item_of_a_hundred_spends_only_its_own_attempts(store: Store, bench: Bench) -> None:
    """Specification A5.9: 99 at their second attempt, the locked one abandoned after five, on its own times."""
    store.fails = lambda endings: retryable() if any(e.claim.row_id == 50 for e in endings) else None
    bench.run(*(Completed(claim(row), "1") for row in range(1, 101)))
    assert store.sizes()[0] == 100
    assert set(store.sizes()[1:]) == {1}
    assert store.tries_of(50) == 5
    assert {store.tries_of(row) for row in range(1, 101) if row != 50} == {2}
    assert [given.row_id for _, given, _ in store.given_back] == [50]
    assert bench.time.waits == [100 * MS, 200 * MS, 400 * MS, 800 * MS]
    assert len(bench.ended) == 100


def test_a_permanent_error_of_a_batch_ends_only_the_item_that_has_it(store: Store, bench: Bench) -> None:
    store.fails = lambda endings: IntegrityError("bad") if any(e.claim.row_id == 2 for e in endings) else None
    bench.run(*(Completed(claim(row), "1") for row in range(1, 4)))
    assert store.sizes() == [3, 1, 1, 1]
    assert bench.time.waits == []
    assert [given.row_id for _, given, _ in store.given_back] == [2]


def test_new_work_goes_through_while_others_wait_for_their_next_try(store: Store, bench: Bench) -> None:
    store.fails = lambda endings: retryable() if any(e.claim.row_id == 1 for e in endings) else None
    arrivals = iter(range(2, 5))

    def during_wait() -> None:
        if (row := next(arrivals, None)) is not None:
            bench.acks.submit(delivery(row), Completed(claim(row), "1"))

    bench.time.during_wait = during_wait
    bench.run(Completed(claim(1), "1"))
    assert {store.tries_of(row) for row in (2, 3, 4)} == {1}
    assert store.tries_of(1) == 5
    assert len(bench.ended) == 4


def test_items_have_their_own_next_times(store: Store, bench: Bench) -> None:
    """Two that fail at different moments are tried at 100, 200, 400 and 800 ms after their own failures."""
    tried: dict[int, list[int]] = {}

    def fails(endings: Sequence[Ending]) -> Exception | None:
        for ending in endings:
            tried.setdefault(ending.claim.row_id, []).append(bench.time.at)
        return retryable()

    store.fails = fails
    late = iter([2])

    def wait_in_two_halves(condition: Any, microseconds: int | None) -> None:
        assert microseconds is not None
        if (row := next(late, None)) is not None:
            bench.time.at += 30 * MS
            bench.acks.submit(delivery(row), Completed(claim(row), "1"))
        else:
            bench.time.at += microseconds

    bench.time.wait = wait_in_two_halves  # type: ignore[method-assign]
    bench.run(Completed(claim(1), "1"))
    for times in tried.values():
        gaps = [after - before for before, after in pairwise(times)]
        assert gaps == [100 * MS, 200 * MS, 400 * MS, 800 * MS]
    assert tried[2][0] - tried[1][0] == 30 * MS


def test_an_undecodable_input_is_abandoned_with_its_cause_and_the_delivery_back_off(store: Store, bench: Bench) -> None:
    bench.run(GiveUp(claim(), Cause.UNDECODABLE_INPUT, FAILURE))
    [(verb, _, how)] = store.given_back
    assert (verb, how["cause"], how["delay"]) == ("abandon", Cause.UNDECODABLE_INPUT, None)
    assert store.acknowledged == []


def test_an_unknown_handler_is_postponed(store: Store, bench: Bench) -> None:
    bench.run(PutOff(claim(), timedelta(seconds=3)))
    assert [(verb, how) for verb, _, how in store.given_back] == [("postpone", {"delay": timedelta(seconds=3)})]


def test_a_transactional_commit_that_failed_for_good_is_abandoned_after_100_ms(store: Store, bench: Bench) -> None:
    bench.run(CommitFailed(claim(), FAILURE))
    [(verb, _, how)] = store.given_back
    assert (verb, how["cause"], how["delay"]) == ("abandon", Cause.ACK_ABANDONED, timedelta(milliseconds=100))


def test_mixed_outcomes_all_end_once(store: Store, bench: Bench) -> None:
    rng = random.Random(7)
    kinds: list[Callable[[Claim], Outcome]] = [
        lambda c: Completed(c, "1"),
        lambda c: PutOff(c, timedelta(seconds=1)),
        lambda c: GiveUp(c, Cause.UNKNOWN_HANDLER, FAILURE),
    ]
    store.fails = lambda endings: retryable() if rng.random() < 0.3 else None
    bench.run(*(rng.choice(kinds)(claim(row)) for row in range(1, 60)))
    assert sorted(d.claim.row_id for d in bench.ended) == list(range(1, 60))
