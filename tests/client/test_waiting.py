"""`aresult()`: one thread and one connection for all who wait, and each gets its own answer."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import uuid
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

import pytest
from asgiref.sync import AsyncSingleThreadContext, ThreadSensitiveContext, async_to_sync, sync_to_async
from django.db import OperationalError, connection, transaction

from durable.client import waiting
from durable.client.find import get_workflow
from durable.errors import InsideTransaction, WorkflowCancelled, WorkflowFailed, WorkflowNotFound
from durable.flow.looks import look
from durable.models import Workflow
from tests import factories
from tests.settings import VENDOR
from tests.waiting import PATIENCE, in_thread

pytestmark = pytest.mark.django_db(transaction=True)


def waiters() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "durable-results"]


def sessions() -> int:
    """Of this database, on the server, but for the one that asks; none where there is no server."""
    if VENDOR != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        found: int = cursor.fetchone()[0]
        return found


@pytest.fixture(autouse=True)
def all_gone() -> Any:
    """When nobody waits any more, the thread ends, and with it its connection."""
    yield
    for thread in waiters():
        thread.join(PATIENCE)
    assert waiters() == []


def complete(workflow_id: uuid.UUID, **columns: Any) -> None:
    Workflow.objects.filter(pk=workflow_id).update(
        **{"status": "completed", "result": '"done"', "closed_at": factories.now(), **columns}
    )


class Looks:
    """Counts the looks for workflows, and lets a test wait for the next ones."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._seen = threading.Semaphore(0)
        self._real = look.standings

    def __call__(self, ids: Any) -> Any:
        ids = list(ids)
        found = self._real(ids)
        self.sizes.append(len(ids))
        self._seen.release()
        return found

    def wait_for(self, count: int) -> None:
        """Wait until some look was for so many."""
        while count not in self.sizes:
            assert self._seen.acquire(timeout=PATIENCE), self.sizes


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    counted = Looks()
    monkeypatch.setattr(look, "standings", counted)
    return counted


def together(calls: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Run them on one loop and return what each returned or raised."""

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(call() for call in calls), return_exceptions=True)

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("way", ["bare", "as requests"])
def test_a_hundred_waiters_hold_one_thread_and_one_session(looks: Looks, way: str) -> None:
    """Faults K8."""
    before = set(threading.enumerate())
    workflows = [factories.WorkflowFactory() for _ in range(100)]

    async def one(workflow_id: uuid.UUID) -> Any:
        if way == "bare":
            return await get_workflow(workflow_id).aresult()
        async with ThreadSensitiveContext():
            return await get_workflow(workflow_id).aresult()

    already = sessions()
    waiting_for = in_thread(together, [lambda pk=one_.pk: one(pk) for one_ in workflows])
    looks.wait_for(100)
    more = [thread for thread in set(threading.enumerate()) - before if thread.name != "durable-results"]
    assert len(waiters()) == 1
    assert len(more) <= 2, "the thread of the loop, and at most the one of asgiref"
    assert sessions() - already <= 2
    for workflow in workflows:
        complete(workflow.pk)
    assert waiting_for.result(PATIENCE) == ["done"] * 100


def test_a_look_is_one_statement_however_many_wait(django_assert_num_queries: Any) -> None:
    ids = [factories.WorkflowFactory().pk for _ in range(100)]
    with django_assert_num_queries(1):
        assert set(look.standings([*ids, uuid.uuid4()])) == set(ids)


def test_results_are_read_in_pieces_however_many_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lengths first; one that has more than a piece may have is read by itself."""
    sizes = [400, 300, 300, 5_000, 200, 900]
    monkeypatch.setattr(waiting, "READ_AT_ONCE", 1_000)
    workflows = [factories.WorkflowFactory() for _ in sizes]
    for workflow, size in zip(workflows, sizes, strict=True):
        complete(workflow.pk, result=f'"{"é" * (size // 2 - 1)}"')
    read: list[int] = []
    snapshots = look.snapshots

    def reading(ids: Any) -> Any:
        found = snapshots(ids)
        read.append(sum(len((one.result or "").encode()) for one in found.values()))
        return found

    monkeypatch.setattr(look, "snapshots", reading)
    calls: list[Callable[[], Awaitable[Any]]] = [get_workflow(workflow.pk).aresult for workflow in workflows]
    told = in_thread(together, calls).result(PATIENCE)
    assert [len(one) for one in told] == [size // 2 - 1 for size in sizes]
    assert sum(read) == sum(sizes)
    assert max(size for size in read if size != 5_000) <= 1_000
    assert 5_000 in read


def test_each_gets_its_own_end(looks: Looks) -> None:
    ended, failed, cancelled, late = (factories.WorkflowFactory() for _ in range(4))
    factories.EventFactory(workflow=cancelled, seq=1, type="workflow_cancelled", data={"reason": "stuck"})
    calls = [
        *[lambda pk=one.pk: get_workflow(pk).aresult() for one in (ended, failed, cancelled)],
        lambda: get_workflow(late.pk).aresult(timeout=0.02),
        lambda: get_workflow(late.pk).aresult(timeout=0),
        lambda: get_workflow(uuid.UUID(int=7)).aresult(),
    ]
    waiting_for = in_thread(together, calls)
    looks.wait_for(3)
    complete(ended.pk)
    complete(failed.pk, status="failed", failure={"type": "KeyError", "message": "x", "traceback": ""}, result=None)
    complete(cancelled.pk, status="cancelled", last_seq=1, result=None)
    said = waiting_for.result(PATIENCE)
    assert said[0] == "done"
    assert (type(said[1]), said[1].type) == (WorkflowFailed, "KeyError")
    assert (type(said[2]), said[2].reason) == (WorkflowCancelled, "stuck")
    assert [str(one) for one in said[3:5]] == [
        f"Workflow {late.pk} has not ended within {span} s." for span in ("0.02", "0")
    ]
    assert [type(one) for one in said[3:]] == [TimeoutError, TimeoutError, WorkflowNotFound]
    assert str(said[5]) == str(WorkflowNotFound(uuid.UUID(int=7)))


def test_several_loops_share_it_and_one_that_is_closed_stops_nobody(looks: Looks) -> None:
    first, second = factories.WorkflowFactory(), factories.WorkflowFactory()
    other = in_thread(asyncio.run, get_workflow(second.pk).aresult())
    looks.wait_for(1)

    async def leave() -> None:
        task = asyncio.ensure_future(get_workflow(first.pk).aresult())
        await sync_to_async(looks.wait_for, thread_sensitive=False)(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    abandoned = asyncio.new_event_loop()
    task = abandoned.create_task(get_workflow(first.pk).aresult())
    abandoned.run_until_complete(asyncio.wait({task}, timeout=0))
    assert len(waiters()) == 1
    abandoned.run_until_complete(_nothing())
    task._log_destroy_pending = False  # type: ignore[attr-defined] # closing a loop with a task in it is the point
    abandoned.close()
    # Ended here. Left to the garbage collector, asgiref's code would set context variables of whatever thread that runs
    # in; twice the interpreter (3.11.7) crashed in the test after this one.
    contextvars.copy_context().run(task.get_coro().close)
    complete(second.pk)
    assert other.result(PATIENCE) == "done"
    del task


async def _nothing() -> None:
    await asyncio.sleep(0)


def test_a_store_that_is_away_is_told_to_each_as_result_tells_it() -> None:
    ids = [factories.WorkflowFactory().pk for _ in range(3)]
    away = OperationalError("the server is away")
    with mock.patch("durable.flow.transactions.transaction.reading", side_effect=away):
        said = together([get_workflow(pk).aresult for pk in ids])
    assert [(type(one), str(one)) for one in said] == [(OperationalError, "the server is away")] * 3
    assert len({id(one) for one in said}) == 3


def test_after_the_store_was_away_the_next_waiter_is_served() -> None:
    workflow = factories.WorkflowFactory()
    with mock.patch(
        "durable.flow.transactions.transaction.reading", side_effect=SystemExit("a receiver of the project's")
    ):
        ended = in_thread(together, [get_workflow(workflow.pk).aresult])
        assert isinstance(ended.exception(PATIENCE), SystemExit)
    complete(workflow.pk)
    assert together([get_workflow(workflow.pk).aresult]) == ["done"]


def test_inside_a_transaction_it_is_refused_at_once_but_for_what_has_ended() -> None:
    live, over = factories.WorkflowFactory(), factories.WorkflowFactory()
    complete(over.pk)
    with transaction.atomic(), AsyncSingleThreadContext():  # which ends the thread of the loop
        with pytest.raises(InsideTransaction):
            async_to_sync(get_workflow(live.pk).aresult)()
        assert async_to_sync(get_workflow(over.pk).aresult)() == "done"
    assert waiters() == []


@pytest.mark.django_db(transaction=False)
def test_in_a_test_case_it_looks_on_the_connection_of_the_test() -> None:
    workflow = factories.WorkflowFactory()
    complete(workflow.pk)
    with AsyncSingleThreadContext():
        assert async_to_sync(get_workflow(workflow.pk).aresult)() == "done"
    assert waiters() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_a_waiter_of_its_own(looks: Looks) -> None:
    """The parent's thread does not run there, and its lock may be held."""
    workflow = factories.WorkflowFactory()
    waiting_for = in_thread(together, [get_workflow(workflow.pk).aresult])
    looks.wait_for(1)
    parents = waiting._waiter  # the waiter of a process cannot be seen through a handle
    with parents._changed:  # the lock that a fork finds held
        child = os.fork()
        if not child:
            anew = waiting._waiter
            # Whether it has ended shows nowhere else.
            os._exit(0 if anew is not parents and anew._thread is None and not anew._tickets else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    complete(workflow.pk)
    assert waiting_for.result(PATIENCE) == ["done"]


def test_a_thread_that_dies_gives_its_error_and_the_next_wait_begins_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that, nobody in the process would ever get a result again."""
    workflow_id = factories.WorkflowFactory().pk
    real = waiting.Waiter._look  # a thread that dies in the midst of its work
    died = threading.Event()

    def die_once(self: waiting.Waiter, tickets: list[waiting.Ticket]) -> None:
        if not died.is_set():
            died.set()
            raise MemoryError("no room for a moment")
        real(self, tickets)

    monkeypatch.setattr(waiting.Waiter, "_look", die_once)
    with pytest.raises(MemoryError):
        asyncio.run(get_workflow(workflow_id).aresult(timeout=PATIENCE))
    complete(workflow_id)
    assert asyncio.run(get_workflow(workflow_id).aresult(timeout=PATIENCE)) == "done"
