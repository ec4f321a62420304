"""What `enqueue` does: the row, the result, the signal; in whose transaction; what it refuses."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection, transaction
from django.test import override_settings
from django.utils import timezone

import durable
from durable.errors import InsideWorkflow, PayloadTooLarge
from durable.models import OutboxRow, Workflow
from durable.tasks import DurableBackend
from durable.testing import NeverEnds
from tests.tasks import jobs
from tests.tasks.conftest import TASKS, Heard, awaited
from tests.tasks.interface import (
    PACKAGE,
    InvalidTask,
    InvalidTaskBackend,
    TaskResultStatus,
    default_task_backend,
    task,
    task_backends,
)

pytestmark = pytest.mark.django_db

NAIVE = datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def row_of(result: Any) -> OutboxRow:
    return OutboxRow.objects.get(workflow_id=result.id)


def test_the_settings_line_makes_the_backend() -> None:
    backend: Any = task_backends["default"]
    assert type(backend) is DurableBackend
    assert default_task_backend == backend
    assert (backend.alias, backend.options) == ("default", {})
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority


@pytest.mark.parametrize("job", [jobs.note, jobs.note_async])
def test_a_task_is_enqueued_as_a_single_activity_of_its_path(job: Any, heard: Heard) -> None:
    result = job.enqueue(1, two=3)
    assert uuid.UUID(result.id)
    assert result.task == job
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.READY, False, 0)
    assert (result.args, result.kwargs, result.backend) == ([1], {"two": 3}, "default")
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert (result.errors, result.worker_ids) == ([], [])
    assert result.enqueued_at is not None
    with pytest.raises(ValueError, match="has not finished yet"):
        _ = result.return_value
    row = row_of(result)
    assert row.activity == row.workflow.type == job.module_path == f"tests.tasks.jobs.{job.func.__name__}"
    assert row.workflow.single
    assert heard == [("enqueued", DurableBackend, "READY")]


def test_an_async_caller_gets_the_same(heard: Heard) -> None:
    result = awaited(jobs.note_async.aenqueue, 1, two=3)
    assert (result.task, result.status) == (jobs.note_async, TaskResultStatus.READY)
    assert (result.args, result.kwargs) == ([1], {"two": 3})
    assert row_of(result).status == "pending"
    assert heard == [("enqueued", DurableBackend, "READY")]


def test_enqueueing_in_async_code_without_await_is_refused() -> None:
    async def enqueue() -> Any:
        return jobs.note.enqueue()

    with pytest.raises(SynchronousOnlyOperation, match="aenqueue"):
        awaited(enqueue)
    assert not OutboxRow.objects.exists()


def test_what_the_caller_chooses_is_on_the_row_and_in_the_result() -> None:
    at = datetime(2031, 5, 1, 12, tzinfo=UTC)
    chosen = jobs.note.using(priority=7, queue_name="mails", run_after=at, backend="free")
    result = chosen.enqueue()
    row = row_of(result)
    assert (row.priority, row.queue, row.visible_after) == (7, "mails", at)
    assert (result.task, result.backend) == (chosen, "free")
    assert jobs.note.get_result(result.id).task == chosen
    assert jobs.note.priority == 0  # `using` makes another task


def test_the_backend_that_is_called_is_the_one_of_the_result() -> None:
    result = task_backends["free"].enqueue(jobs.note, [], {})
    assert (result.backend, result.task.backend) == ("free", "free")


def test_arguments_become_json() -> None:
    result = jobs.note.enqueue((1, 2), b"abc", pair={"a": (3,)})
    assert (result.args, result.kwargs) == ([[1, 2], "abc"], {"pair": {"a": [3]}})


@pytest.mark.parametrize("value", [NAIVE, object(), {1, 2}], ids=["time", "object", "set"])
def test_what_json_cannot_carry_is_refused_at_the_call(value: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        jobs.note.enqueue(value)
    with pytest.raises(TypeError, match="Unsupported type"):
        jobs.note.enqueue(named=value)
    with pytest.raises(TypeError, match="Unsupported type"):
        awaited(jobs.note.aenqueue, value)
    with pytest.raises(ValueError, match="Unsupported value"):
        jobs.note.enqueue(b"\xff")
    assert not Workflow.objects.exists()


@override_settings(DURABLE={"MAX_PAYLOAD_BYTES": 100})
def test_arguments_that_are_too_large_are_refused_at_the_call() -> None:
    with pytest.raises(PayloadTooLarge):
        jobs.note.enqueue("x" * 200)


def test_a_call_that_does_not_fit_the_function_is_enqueued() -> None:
    """As Django says: the function is called when the task runs, and not before."""
    assert jobs.sum_of_two.enqueue(1).status == TaskResultStatus.READY


@pytest.mark.django_db(transaction=True)
def test_a_task_is_part_of_the_callers_transaction(second_connection: Any) -> None:
    def count() -> int:
        return OutboxRow.objects.count()

    with transaction.atomic():
        result = jobs.note.enqueue()
        assert result.enqueued_at is not None
        assert OutboxRow.objects.count() == 1
        assert second_connection(count).result() == 0
    assert second_connection(count).result() == 1


@pytest.mark.django_db(transaction=True)
def test_a_rollback_takes_the_task_with_it() -> None:
    with transaction.atomic():
        jobs.note.enqueue()
        with transaction.atomic():
            jobs.answer.enqueue()
        transaction.set_rollback(True)
    assert (OutboxRow.objects.count(), Workflow.objects.count()) == (0, 0)


def test_a_savepoint_takes_only_its_own_tasks_with_it() -> None:
    jobs.note.enqueue()
    with transaction.atomic():
        jobs.answer.enqueue()
        transaction.set_rollback(True)
    assert [row.activity for row in OutboxRow.objects.all()] == ["tests.tasks.jobs.note"]


def test_a_receiver_that_raises_stops_the_caller_as_in_django() -> None:
    """`task_enqueued` is sent at the call, in the caller's transaction: it may refuse."""
    from tests.tasks.interface import task_enqueued

    def refuse(**values: Any) -> None:
        raise RuntimeError("not today")

    task_enqueued.connect(refuse)
    try:
        with pytest.raises(RuntimeError, match="not today"), transaction.atomic():
            jobs.note.enqueue()
    finally:
        task_enqueued.disconnect(refuse)
    assert not OutboxRow.objects.exists()


def test_the_interface_logs_what_is_enqueued(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", PACKAGE):
        result = jobs.note.enqueue()
    lines = [record.getMessage() for record in caplog.records if "enqueued" in record.getMessage()]
    assert len(lines) == 1
    assert result.id in lines[0]


def test_enqueueing_takes_a_fixed_number_of_statements(django_assert_num_queries: Any) -> None:
    jobs.note.enqueue()
    # SQLite: savepoint, three inserts, release; and one to read the result.
    with django_assert_num_queries(2 if connection.vendor == "postgresql" else 6):
        jobs.note.enqueue()


# --- what is refused ---


def test_a_queue_that_the_backend_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidTask, match="Queue 'reports' is not valid"):
        jobs.note.using(queue_name="reports")
    assert jobs.note.using(queue_name="reports", backend="free").enqueue().task.queue_name == "reports"


def test_a_task_is_checked_again_when_it_is_enqueued() -> None:
    mails = jobs.note.using(queue_name="mails")
    with override_settings(TASKS={"default": {"BACKEND": "durable.tasks.DurableBackend"}}):
        with pytest.raises(InvalidTask, match="Queue 'mails' is not valid"):
            mails.enqueue()
        with pytest.raises(InvalidTask, match="Queue 'mails' is not valid"):
            awaited(mails.aenqueue)


@pytest.mark.parametrize("priority", [-101, 101, 3.1])
def test_a_priority_that_the_interface_does_not_know_is_refused(priority: Any) -> None:
    with pytest.raises(InvalidTask, match="whole number"):
        jobs.note.using(priority=priority)


@pytest.mark.parametrize("priority", [-100, 0, 100])
def test_every_priority_of_the_interface_is_stored(priority: int) -> None:
    assert row_of(jobs.note.using(priority=priority).enqueue()).priority == priority


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidTask, match="aware"):
        jobs.note.using(run_after=NAIVE)


@override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin")
def test_without_time_zones_times_are_those_of_the_project() -> None:
    at = datetime(2031, 7, 1, 12, tzinfo=UTC).replace(tzinfo=None)
    result = jobs.note.using(run_after=at).enqueue()
    assert row_of(result).visible_after == datetime(2031, 7, 1, 10, tzinfo=UTC)
    assert result.task.run_after == at
    assert result.enqueued_at is not None
    assert timezone.is_naive(result.enqueued_at)
    assert jobs.note.enqueue().task.run_after is None


def test_a_time_beyond_the_calendar_of_the_engine_is_refused() -> None:
    with pytest.raises(InvalidTask, match="start_at"):
        jobs.note.using(run_after=datetime(9999, 12, 31, tzinfo=UTC)).enqueue()


def test_a_queue_or_a_path_that_no_row_can_hold_is_refused() -> None:
    with pytest.raises(InvalidTask, match="queue"):
        jobs.note.using(queue_name="q" * 101, backend="free")


def test_only_functions_of_a_module_can_be_tasks() -> None:
    def inner() -> None: ...

    for wrong in (any, inner, lambda: None):
        with pytest.raises(InvalidTask, match="module level"):
            task(wrong)


def a_generator() -> Any:
    yield 1


def without_context() -> None: ...


def test_a_generator_is_refused() -> None:
    with pytest.raises(InvalidTask, match="generator"):
        task(a_generator)


def test_a_task_with_context_has_to_take_one() -> None:
    with pytest.raises(InvalidTask, match="context"):
        task(takes_context=True)(without_context)


other_name = task(without_context)


def test_a_task_that_its_path_does_not_lead_to_is_refused() -> None:
    with pytest.raises(InvalidTask, match="does not lead to this task"):
        other_name.enqueue()
    assert not OutboxRow.objects.exists()


def test_a_task_in_workflow_code_is_refused() -> None:
    async def flow() -> None:
        jobs.note.enqueue()

    async def flow_async() -> None:
        await jobs.note.aenqueue()

    for code in (flow, flow_async):
        with pytest.raises((durable.WorkflowBlocked, NeverEnds, InsideWorkflow), match=r"(?i)inside ?workflow"):
            _run(code)
    assert not OutboxRow.objects.exists()


def _run(code: Any) -> Any:
    from durable.kernel.definitions.registry import registry
    from durable.testing import run

    with registry.isolated():
        return run(durable.workflow(name=f"t.{code.__name__}")(code))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"retries": 3}, "'retries'"),
        ({"retry": 3}, "3"),
        ({"retry": {"tests.tasks.jobs.note": 3}}, "note"),
        ({"modules": "tests.tasks.jobs"}, "modules"),
    ],
)
def test_wrong_options_are_named_when_a_task_is_enqueued(options: dict[str, Any], fault: str) -> None:
    with (
        override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": options}}),
        pytest.raises(InvalidTaskBackend, match=fault),
    ):
        jobs.note.enqueue()


def test_a_backend_that_is_not_configured_is_refused() -> None:
    with pytest.raises(InvalidTaskBackend):
        jobs.note.using(backend="unknown")
    with override_settings(TASKS={"other": TASKS["default"]}), pytest.raises(InvalidTaskBackend):
        jobs.note.enqueue()


def test_enqueueing_tomorrow_does_not_run_today() -> None:
    from durable.testing import drain

    result = jobs.note.using(run_after=timezone.now() + timedelta(hours=10)).enqueue()
    drain()
    result.refresh()
    assert (result.status, jobs.seen) == (TaskResultStatus.READY, [])
    drain(until=timedelta(hours=11))
    result.refresh()
    assert (result.status, len(jobs.seen)) == (TaskResultStatus.SUCCESSFUL, 1)
