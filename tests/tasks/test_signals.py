"""The interface's signals: in which order, from which thread, after which commit, and how often."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from durable import Retry, operations
from durable.client.find import get_workflow
from durable.models import Workflow
from durable.tasks import DurableBackend
from durable.testing import drain
from tests.ledger.models import Entry
from tests.tasks import jobs
from tests.tasks.conftest import TASKS, Heard, burst
from tests.tasks.interface import PACKAGE, TaskResultStatus, task_finished, task_started
from tests.tasks.letters import DEAD_AT_ONCE, dead_letter, lose, take

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def receiving(signal: Any, receiver: Any) -> Iterator[None]:
    signal.connect(receiver)
    try:
        yield
    finally:
        signal.disconnect(receiver)


@pytest.mark.parametrize(
    ("job", "end"), [(jobs.answer, "SUCCESSFUL"), (jobs.note_async, "SUCCESSFUL"), (jobs.fail, "FAILED")]
)
def test_each_task_is_enqueued_started_and_finished_once(job: Any, end: str, heard: Heard) -> None:
    job.enqueue()
    burst()
    assert heard == [
        ("enqueued", DurableBackend, "READY"),
        ("started", DurableBackend, "RUNNING"),
        ("finished", DurableBackend, end),
    ]


def test_each_attempt_is_started_and_only_the_end_is_finished(heard: Heard) -> None:
    retry = Retry(max_attempts=2, first=timedelta(), jitter=0.0)
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": {"retry": retry}}}):
        jobs.second_time.enqueue()
        burst()
    assert heard.names() == ["enqueued", "started", "started", "finished"]


def test_finished_is_sent_after_the_commit_of_the_end(second_connection: Any) -> None:
    """Its receivers, and everybody else, see the end in the database."""
    told: list[Any] = []

    def status(result_id: str) -> str:
        return Workflow.objects.get(id=result_id).status

    def receive(task_result: Any, **rest: Any) -> None:
        told.append((task_result.return_value, second_connection(status, task_result.id).result()))

    with receiving(task_finished, receive):
        jobs.answer.enqueue()
        burst()
    assert told == [(42, "completed")]


def test_an_end_that_is_rolled_back_is_not_finished(heard: Heard) -> None:
    result = jobs.answer.enqueue()
    with transaction.atomic():
        get_workflow(result.id).cancel()
        assert heard.names() == ["enqueued"]
        transaction.set_rollback(True)
    assert heard.names() == ["enqueued"]
    with transaction.atomic():
        get_workflow(result.id).cancel()
        assert heard.names() == ["enqueued"]
    assert heard[1:] == [("finished", DurableBackend, "FAILED")]


def test_started_comes_on_the_tasks_own_thread_before_its_function() -> None:
    told: list[Any] = []

    def receive(task_result: Any, **rest: Any) -> None:
        told.append((threading.get_ident(), list(jobs.seen), task_result.attempts))

    with receiving(task_started, receive):
        jobs.thread.enqueue()
        burst()
    assert told == [(jobs.seen[0], [], 1)]


def test_async_receivers_are_called_for_sync_and_async_tasks() -> None:
    told: list[str] = []

    async def receive(task_result: Any, **rest: Any) -> None:
        told.append(f"{task_result.task.name} {await Entry.objects.acount()}")

    with receiving(task_started, receive), receiving(task_finished, receive):
        jobs.answer.enqueue()
        burst()
        jobs.note_async.enqueue()
        burst()
    assert told == ["answer 0"] * 2 + ["note_async 0"] * 2


@pytest.mark.parametrize("error", [RuntimeError("mine"), SystemExit(1)])
def test_receivers_that_raise_stop_neither_the_task_nor_the_next_receiver(
    error: BaseException, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    def receive(**rest: Any) -> None:
        raise error

    with receiving(task_started, receive), receiving(task_finished, receive):
        result = jobs.answer.enqueue()
        burst()
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert heard.names() == ["enqueued", "started", "finished"]
    raised: list[Any] = [r for r in caplog.records if getattr(r, "durable_event", r.msg) == "signal.receiver_raised"]
    assert [(r.signal, r.workflow) for r in raised] == [("task_started", result.id), ("task_finished", result.id)]


@override_settings(DURABLE=DEAD_AT_ONCE)
def test_a_dead_letter_is_finished_once_and_again_after_a_redrive(heard: Heard) -> None:
    result = dead_letter()
    assert heard[1:] == [("finished", DurableBackend, "FAILED")]
    operations.redrive(uuid.UUID(result.id), 1, reason="again")
    assert heard.names() == ["enqueued", "finished"]
    drain()
    assert heard[2:] == [("started", DurableBackend, "RUNNING"), ("finished", DurableBackend, "SUCCESSFUL")]


@override_settings(DURABLE=DEAD_AT_ONCE)
@pytest.mark.parametrize(
    "close",
    [
        lambda id: operations.discard(id, 1, reason="no", then="fail"),
        lambda id: operations.discard(id, 1, reason="no", then="cancel"),
        lambda id: operations.terminate(id, reason="no"),
        lambda id: get_workflow(id).cancel(),
    ],
    ids=["discard", "discard and cancel", "terminate", "cancel"],
)
def test_closing_a_dead_letter_does_not_finish_it_a_second_time(close: Any, heard: Heard) -> None:
    result = dead_letter()
    close(uuid.UUID(result.id))
    drain()
    assert Workflow.objects.get(id=result.id).closed_at is not None
    assert heard.names() == ["enqueued", "finished"]


@override_settings(DURABLE=DEAD_AT_ONCE)
def test_a_redriven_task_that_is_cancelled_is_finished_again(heard: Heard) -> None:
    result = dead_letter()
    operations.redrive(uuid.UUID(result.id), 1, reason="again")
    get_workflow(result.id).cancel()
    assert heard[1:] == [("finished", DurableBackend, "FAILED")] * 2


@override_settings(DURABLE={**DEAD_AT_ONCE, "ON_DEAD_LETTER": "deliver"})
def test_a_delivered_dead_letter_is_finished_once(heard: Heard) -> None:
    jobs.answer.enqueue()
    lose(take("first"))
    assert heard.names() == ["enqueued", "finished"]


def test_the_interface_logs_start_and_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        done, failed = jobs.answer.enqueue(), jobs.fail.enqueue()
        drain()
    lines = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == PACKAGE]
    for result, end, level in ((done, "SUCCESSFUL", "INFO"), (failed, "FAILED", "ERROR")):
        told = [(name, line.rpartition("state=")[2]) for name, line in lines if result.id in line]
        assert told == [("INFO", "RUNNING"), (level, end)]


def test_other_activities_and_workflows_send_none_of_them(isolated_registry: Any, heard: Heard) -> None:
    import durable

    @durable.activity(name="t.ring")
    def ring() -> None: ...

    @durable.workflow(name="t.flow")
    async def flow() -> None:
        await ring.execute()

    jobs.answer.using(backend="free")
    ring.enqueue()
    flow.start()
    drain()
    assert heard == []
