"""The claim: due rows become deliveries, each exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from durable.errors import TransactionOpen
from durable.flow.caller import enqueue
from durable.flow.delivery import claim, release
from durable.flow.transactions import transaction as own
from durable.flow.upkeep import reconcile
from durable.models import OutboxRow, WorkItem
from durable.outcomes import Claim
from tests.conftest import ROOT
from tests.flow import cases
from tests.flow.claiming import claim_all
from tests.flow.driver import LEASE, Driver, items, row
from tests.flow.state import everything, locked_elsewhere, make_due, only_postgresql, pause, run
from tests.rounds import AT_LAST, rounds
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


def enqueue_many(number: int) -> None:
    new = [
        enqueue.new_activity(
            id=uuid.uuid4(), activity="cases.step", payload='{"n":1}', attempt_budget=5, delivery_budget=8
        )
        for _ in range(number)
    ]
    enqueue.enqueue(new)


def test_a_claim_counts_the_delivery_and_makes_the_work_item_with_its_token(driver: Driver, frozen_clock: Any) -> None:
    """All of it in one commit; the claim carries what the worker needs to know."""
    workflow_id = driver.enqueue(cases.step, 7, budget=3, deliveries=4)
    taken = driver.claim_one()
    staged = row(workflow_id)
    assert (staged.status, staged.deliveries, staged.claimed_at) == ("claimed", 1, frozen_clock.now)
    (item,) = items()
    assert (item.outbox_row_id, item.workflow_id, item.lock_token) == (staged.id, workflow_id, taken.token)
    assert (item.locked_until, item.worker) == (frozen_clock.now + LEASE, "driver")
    assert (item.attempts, item.attempt_budget, item.delivery_failures, item.delivery_budget) == (0, 3, 0, 4)
    assert (taken.activity, taken.payload, taken.delivery, taken.attempt) == ("cases.step", '{"n":7}', 1, 1)
    assert taken.idempotency_key == f"{workflow_id}:1:1" == staged.dispatch_key


def test_what_is_claimed_is_not_claimed_again(driver: Driver) -> None:
    """Also not under another name."""
    driver.enqueue(cases.step, 1)
    assert len(driver.claim()) == 1
    before = everything()
    assert Driver(name="other").claim() == []
    assert everything() == before


def test_higher_priority_comes_first_then_the_earlier_due(driver: Driver, frozen_clock: Any) -> None:
    """And only so many as asked for."""
    late = driver.enqueue(cases.step, 1)
    urgent = driver.enqueue(cases.step, 1, priority=5)
    frozen_clock.move(timedelta(seconds=1))
    lazy = driver.enqueue(cases.step, 1, priority=-1)
    later = driver.enqueue(cases.step, 1)
    assert [c.workflow_id for c in driver.claim(limit=3)] == [urgent, late, later]
    assert [c.workflow_id for c in driver.claim(limit=3)] == [lazy]


def test_rows_that_are_not_due_wait(driver: Driver, frozen_clock: Any) -> None:
    """Due means due now, the moment itself included."""
    driver.enqueue(cases.step, 1, start_at=frozen_clock.now + timedelta(seconds=5))
    assert driver.claim() == []
    frozen_clock.move(timedelta(seconds=5))
    assert len(driver.claim()) == 1


def test_only_the_queues_asked_for_are_claimed(driver: Driver) -> None:
    """None asks for all of them."""
    slow = driver.enqueue(cases.step, 1, queue="slow")
    fast = driver.enqueue(cases.step, 1, queue="fast")
    driver.enqueue(cases.step, 1, queue="else")

    def claimed(*queues: str) -> set[uuid.UUID]:
        taken = claim.claim(worker="w", limit=9, queues=queues, lease_for=LEASE)
        return {c.workflow_id for c in taken}

    assert claimed("nobody's") == set()
    assert claimed("slow", "fast") == {slow, fast}
    assert len(driver.claim()) == 1


def test_paused_rows_are_not_claimed(driver: Driver) -> None:
    """The mark is on the row, whatever its status was when it was set."""
    workflow_id = driver.start(cases.sequence, 1)
    driver.turn()
    pause(workflow_id)
    assert driver.claim() == []


@pytest.mark.parametrize("status", ["claimed", "done", "dead", "cancelled"])
def test_only_pending_rows_are_claimed(driver: Driver, status: str) -> None:
    """Whatever stands in the other columns."""
    workflow_id = driver.enqueue(cases.step, 1)
    OutboxRow.objects.filter(workflow_id=workflow_id).update(
        status=status, dead_lettered_at=row(workflow_id).created_at
    )
    assert driver.claim() == []


def test_suspects_are_claimed_alone_and_by_their_own_verb(driver: Driver) -> None:
    """Specification B7: the killer spends its own budget."""
    for _ in range(3):
        driver.enqueue(cases.step, 1)
    OutboxRow.objects.filter(id__in=list(OutboxRow.objects.values_list("id", flat=True)[:2])).update(suspect=True)
    assert [c.suspect for c in driver.claim()] == [False]
    first = claim.claim_suspect(worker="w", queues=None, lease_for=LEASE)
    second = claim.claim_suspect(worker="w", queues=("default",), lease_for=LEASE)
    assert [c.suspect for c in first + second] == [True, True]
    assert claim.claim_suspect(worker="w", queues=None, lease_for=LEASE) == []


def test_a_suspect_of_another_queue_is_left_there(driver: Driver) -> None:
    """Its worker will take it."""
    driver.enqueue(cases.step, 1, queue="slow")
    OutboxRow.objects.update(suspect=True)
    assert claim.claim_suspect(worker="w", queues=("fast",), lease_for=LEASE) == []


def test_each_delivery_of_a_row_has_a_token_of_its_own(driver: Driver) -> None:
    """Faults X6: a token is compared, not a time."""
    workflow_id = driver.enqueue(cases.step, 1)
    tokens = set()
    for _ in range(5):
        (taken,) = driver.claim()
        tokens.add(taken.token)
        release.release([taken])
        make_due(row(workflow_id).id)
    assert len(tokens) == 5


def test_several_queues_are_one_order(driver: Driver) -> None:
    """Higher priority first, then the earlier due, whichever queue it is in; and no more than asked for of all."""
    low = [driver.enqueue(cases.step, n, queue=queue) for n, queue in enumerate(["a", "b", "a", "elsewhere", "b"])]
    high = driver.enqueue(cases.step, 9, queue="b", priority=1)
    taken = claim.claim(worker="w", limit=4, queues=("a", "b", "unused"), lease_for=LEASE)
    assert [c.workflow_id for c in taken] == [high, *low[:3]]
    rest = claim.claim(worker="w", limit=4, queues=("b", "a"), lease_for=LEASE)
    assert [c.workflow_id for c in rest] == low[4:]


def test_a_row_that_can_not_be_read_is_not_run_and_keeps_no_other_from_it(driver: Driver) -> None:
    """Faults O5: its lease runs out, and reconciling shows it."""
    broken, good = driver.enqueue(cases.step, 1, priority=9), driver.enqueue(cases.step, 2)
    row_id = row(broken).id
    run(f"UPDATE durable_outboxrow SET options = 'not json' WHERE id = {row_id}")
    assert [c.workflow_id for c in driver.claim()] == [good]
    assert driver.claim() == []
    WorkItem.objects.update(locked_until="2020-01-01T00:00:00+00:00")
    report = reconcile.reconcile()
    assert (report.rearmed, set(report.errors)) == (1, {broken})


@pytest.mark.parametrize("number", [0, 1, 100])
def test_a_claim_is_a_constant_number_of_statements(driver: Driver, number: int) -> None:
    """Faults G4: a look that locks and one write, whatever the batch size. On SQLite the items are a second write, and
    a look without the lock comes first.
    """
    enqueue_many(number)
    with CaptureQueriesContext(connection) as captured:
        assert len(driver.claim(limit=100)) == number
    counted = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE", "BEGIN", "SET LOCAL"))]
    assert len(counted) == (1 if not number else {"postgresql": 2, "sqlite": 4}[connection.vendor])


def test_the_limit_of_a_claim_is_a_literal(driver: Driver) -> None:
    """As a parameter it would be planned anew each time, or generically."""
    driver.enqueue(cases.step, 1)
    seen: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        driver.claim(limit=17)
    assert any("LIMIT 17" in sql for sql in seen)


@own_connections
def test_a_row_that_somebody_else_has_locked_is_skipped(driver: Driver) -> None:
    """The claim does not wait for it, and takes the others. SQLite has no row locks: nothing to skip."""
    if not only_postgresql():
        pytest.skip("SQLite has no row locks.")
    held, free = driver.enqueue(cases.step, 1), driver.enqueue(cases.step, 2)
    with locked_elsewhere("durable_outboxrow", "id", row(held).id):
        assert [c.workflow_id for c in driver.claim()] == [free]
    assert [c.workflow_id for c in driver.claim()] == [held]


@own_connections
def test_a_claim_that_committed_without_saying_so_finds_its_deliveries(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second try recognises the first one's token; nothing is delivered, or counted, twice."""
    enqueue_many(3)
    monkeypatch.setattr(own, "_FIRST_WAIT", 0)  # no waits between the tries of a transaction
    commit, lost = connection.commit, ["the connection"]

    def committed_and_lost() -> None:
        commit()
        if lost:
            raise OperationalError(f"{lost.pop()} went away")

    monkeypatch.setattr(connection, "commit", committed_and_lost)
    taken = driver.claim()
    assert lost == []
    assert sorted(c.row_id for c in taken) == sorted(OutboxRow.objects.values_list("id", flat=True))
    assert {c.token for c in taken} == set(WorkItem.objects.values_list("lock_token", flat=True))
    assert set(OutboxRow.objects.values_list("deliveries", flat=True)) == {1}


@own_connections
def test_four_threads_claim_each_of_500_rows_exactly_once(second_connection: Callable[..., Future[Any]]) -> None:
    """Faults Q1, in one process."""
    enqueue_many(500)
    claimers = [second_connection(claim_all, f"thread-{at}") for at in range(4)]
    _assert_each_once([row_id for claimer in claimers for row_id in claimer.result(60)])


def _assert_each_once(claimed: list[int]) -> None:
    """The items say so too: a claim answers what it holds, not what somebody else got."""
    assert Counter(claimed) == Counter(OutboxRow.objects.values_list("id", flat=True))
    assert set(OutboxRow.objects.values_list("status", "deliveries")) == {("claimed", 1)}
    assert WorkItem.objects.count() == len(claimed)


_PROCESS = """
import json, sys, django
django.setup()
from tests.flow.claiming import claim_all
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(claim_all(sys.argv[1])))
"""


@own_connections
def test_four_processes_claim_each_of_500_rows_exactly_once(subprocess_environment: dict[str, str]) -> None:
    """Faults Q1: on SQLite they share nothing but the file."""
    enqueue_many(500)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PROCESS, f"process-{at}"],
            env=subprocess_environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for at in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    claimed = []
    for process in processes:
        told, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        claimed += json.loads(told)
    _assert_each_once(claimed)


@pytest.mark.races
@own_connections
def test_of_eight_claimers_on_one_row_one_wins_each_round(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Faults X6, which asks for 1,000 rounds."""
    times = rounds(40, asked=1000)
    driver.enqueue(cases.step, 1)
    begin, over = barrier(8), barrier(8)

    def claimer(name: str) -> list[int]:
        mine, hands = [], Driver(name=name)
        for at in range(times):
            begin.wait()
            taken: list[Claim] = hands.claim(limit=1)
            over.wait()
            if taken:
                mine.append(at)
                release.release(taken)
        return mine

    claimers = [second_connection(claimer, f"claimer-{at}") for at in range(8)]
    won = [at for each in claimers for at in each.result(AT_LAST)]
    assert sorted(won) == list(range(times))


@own_connections
def test_a_claim_inside_somebody_elses_transaction_is_refused(driver: Driver) -> None:
    """An own transaction never nests: what it answers would not be committed."""
    driver.enqueue(cases.step, 1)
    with transaction.atomic(), pytest.raises(TransactionOpen):
        driver.claim()
    assert OutboxRow.objects.get().status == "pending"
