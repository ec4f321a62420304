"""What a result says of each state of its row, operators' verbs included; and which ids lead to one."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

import durable
from durable import Retry, activity, operations
from durable.client.find import get_workflow
from durable.models import OutboxRow, Workflow, WorkItem
from durable.outcomes import Cause, Failure
from durable.testing import drain
from tests.tasks import jobs
from tests.tasks.conftest import TASKS, awaited
from tests.tasks.interface import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    default_task_backend,
)
from tests.tasks.letters import DEAD_AT_ONCE, dead_letter, lose, take

pytestmark = pytest.mark.django_db(transaction=True)


def state(result: Any) -> tuple[str, bool, bool]:
    """Status, whether it is finished, and whether it has a time for that."""
    return result.status.value, result.is_finished, result.finished_at is not None


READY, RUNNING = ("READY", False, False), ("RUNNING", False, False)
FAILED, SUCCESSFUL = ("FAILED", True, True), ("SUCCESSFUL", True, True)


@override_settings(DURABLE=DEAD_AT_ONCE)
def test_a_dead_letter_has_failed_and_a_redriven_one_is_ready_again() -> None:
    result = dead_letter()
    assert state(result) == FAILED
    assert result.worker_ids == ["first"]
    [error] = result.errors
    assert error.exception_class is durable.ActivityError
    assert error.traceback.endswith("tests.tasks.jobs.answer failed with DeliveryFailed: lease lost\n")
    assert result.started_at == result.last_attempted_at <= result.finished_at

    operations.redrive(uuid.UUID(result.id), 1, reason="the host is back")
    result.refresh()
    assert state(result) == READY
    assert (result.worker_ids, len(result.errors)) == (["first"], 1)  # what has happened is not forgotten

    again = take("second")
    result.refresh()
    assert state(result) == RUNNING
    assert result.worker_ids == ["first", "second"]
    lose(again)
    result.refresh()
    assert state(result) == FAILED

    operations.redrive(uuid.UUID(result.id), 1, reason="once more")
    drain()
    result.refresh()
    assert (state(result), result.return_value, result.attempts) == (SUCCESSFUL, 42, 3)


@override_settings(DURABLE=DEAD_AT_ONCE)
@pytest.mark.parametrize("then", ["fail", "cancel"])
def test_a_discarded_dead_letter_has_failed(then: Any) -> None:
    result = dead_letter()
    operations.discard(uuid.UUID(result.id), 1, reason="nobody wants it", then=then)
    result.refresh()
    assert state(result) == FAILED
    assert result.errors[0].exception_class is durable.ActivityError


@override_settings(DURABLE={**DEAD_AT_ONCE, "ON_DEAD_LETTER": "deliver"})
def test_a_dead_letter_that_is_delivered_has_failed() -> None:
    result = jobs.answer.enqueue()
    lose(take("first"))
    result.refresh()
    assert Workflow.objects.get(id=result.id).status == "failed"
    assert (state(result), result.attempts) == (FAILED, 1)


def test_a_task_that_is_cancelled_before_it_begins_has_failed() -> None:
    result = jobs.answer.enqueue()
    get_workflow(result.id).cancel(reason="nobody needs it")
    result.refresh()
    assert state(result) == FAILED
    assert (result.attempts, result.started_at, result.last_attempted_at) == (0, None, None)
    [error] = result.errors
    assert error.exception_class is durable.WorkflowCancelled
    assert "nobody needs it" in error.traceback
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_a_task_that_is_cancelled_while_it_runs_has_failed() -> None:
    result = jobs.answer.enqueue()
    taken = take("first")
    get_workflow(result.id).cancel()
    lose(taken)
    result.refresh()
    assert (state(result), result.worker_ids) == (FAILED, ["first"])
    assert result.errors[-1].exception_class is durable.WorkflowCancelled


def test_a_terminated_task_has_failed() -> None:
    result = jobs.answer.enqueue()
    operations.terminate(uuid.UUID(result.id), reason="enough")
    result.refresh()
    assert state(result) == FAILED
    assert "enough" in result.errors[0].traceback


def test_a_paused_task_is_ready() -> None:
    result = jobs.answer.enqueue()
    operations.pause(uuid.UUID(result.id), reason="wait")
    drain()
    result.refresh()
    assert state(result) == READY
    operations.resume(uuid.UUID(result.id))
    drain()
    result.refresh()
    assert state(result) == SUCCESSFUL


def test_a_lost_delivery_is_tried_again_uncounted_as_an_attempt_of_the_task() -> None:
    """One attempt means one start of the function that ended by itself; a worker that died is no such end."""
    result = jobs.answer.enqueue()
    lose(take("first"), Cause.WORKER_DIED)
    result.refresh()
    assert (state(result), result.worker_ids) == (READY, ["first"])
    drain()
    result.refresh()
    assert (state(result), result.return_value, result.worker_ids) == (SUCCESSFUL, 42, ["first", "durable.testing"])


def test_a_delivery_that_never_reached_the_function_is_no_attempt() -> None:
    result = jobs.answer.enqueue()
    lose(take("first"), Cause.UNKNOWN_HANDLER, Failure("durable.errors.NotRegistered", "no such activity"))
    result.refresh()
    assert (result.attempts, result.started_at) == (0, None)
    assert result.errors[0].exception_class is durable.NotRegistered


def test_a_delivery_that_was_given_back_leaves_nothing() -> None:
    from durable.flow.delivery import release

    result = jobs.answer.enqueue()
    release.release([take("first")])
    result.refresh()
    assert (state(result), result.worker_ids, result.started_at) == (READY, [], None)


# --- which id leads to what ---


def test_a_result_is_equal_to_the_one_that_enqueue_gave(django_assert_num_queries: Any) -> None:
    result = jobs.answer.enqueue()
    with django_assert_num_queries(1):
        assert default_task_backend.get_result(result.id) == result
    assert jobs.answer.get_result(result.id) == result
    assert awaited(jobs.answer.aget_result, result.id) == result
    assert awaited(default_task_backend.aget_result, result.id) == result


def test_refreshing_changes_nothing_where_nothing_has_happened() -> None:
    result = jobs.answer.enqueue()
    before = dataclasses.asdict(result)
    result.refresh()
    assert dataclasses.asdict(result) == before
    awaited(result.arefresh)
    assert dataclasses.asdict(result) == before


def test_every_backend_of_this_kind_finds_the_result() -> None:
    result = jobs.answer.using(backend="free").enqueue()
    assert default_task_backend.get_result(result.id) == result


@pytest.mark.parametrize("missing", ["12", "", str(uuid.UUID(int=7, version=4)), 123, None])
def test_an_id_of_no_result_is_said_so(missing: Any) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        jobs.answer.get_result(missing)
    with pytest.raises(TaskResultDoesNotExist):
        awaited(default_task_backend.aget_result, missing)


def test_a_result_of_another_task_is_said_so() -> None:
    result = jobs.answer.enqueue()
    with pytest.raises(TaskResultMismatch, match="does not match"):
        jobs.note.get_result(result.id)
    with pytest.raises(TaskResultMismatch, match="does not match"):
        awaited(jobs.note.aget_result, result.id)


def test_workflows_and_other_activities_are_no_results(isolated_registry: Any) -> None:
    @activity(name="t.ring")
    def ring() -> None: ...

    @durable.workflow(name="t.flow")
    async def flow() -> None: ...

    for handle in (ring.enqueue(), flow.start()):
        with pytest.raises(TaskResultDoesNotExist):
            default_task_backend.get_result(str(handle.id))


def test_a_result_whose_task_is_gone_says_which() -> None:
    result = jobs.answer.enqueue()
    OutboxRow.objects.update(activity="tests.tasks.jobs.removed")
    with pytest.raises(InvalidTask, match=r"tests\.tasks\.jobs\.removed"):
        default_task_backend.get_result(result.id)


def test_a_result_stays_readable_when_its_queue_and_backend_leave_the_settings() -> None:
    result = jobs.answer.using(queue_name="reports", backend="free").enqueue()
    with override_settings(TASKS={"default": TASKS["default"]}):
        later = default_task_backend.get_result(result.id)
        assert (later.task.queue_name, later.backend) == ("reports", "free")
        drain()
        assert default_task_backend.get_result(result.id).return_value == 42


@override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin")
def test_without_time_zones_all_times_are_naive() -> None:
    result = jobs.answer.enqueue()
    drain()
    result.refresh()
    times = (result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at)
    assert all(at is not None and at.tzinfo is None for at in times)


def test_errors_are_stored_under_the_codec_and_read_by_the_result() -> None:
    key = {"k1": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
    with override_settings(DURABLE={"CODEC": "durable.crypto.EncryptingCodec", "ENCRYPTION_KEYS": key}):
        failed, done = jobs.fail.enqueue("secret street"), jobs.story.enqueue("secret word")
        drain()
        stored = str(list(OutboxRow.objects.values_list("input", "failed_attempts__error")))
        assert "secret" not in stored
        failed.refresh()
        done.refresh()
        assert failed.args == ["secret street"]
        assert "ValueError: secret street" in failed.errors[0].traceback
        assert done.return_value["word"] == "secret word"


def test_the_row_of_a_finished_task_names_its_last_worker() -> None:
    result = jobs.answer.enqueue()
    assert OutboxRow.objects.get(workflow_id=result.id).worker == ""
    take("here")
    assert OutboxRow.objects.get(workflow_id=result.id).worker == WorkItem.objects.get().worker == "here"


RETRIED = Retry(max_attempts=2, first=timedelta(), jitter=0.0)


def test_a_second_attempt_that_succeeds_keeps_the_error_of_the_first() -> None:
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": {"retry": RETRIED}}}):
        result = jobs.second_time.enqueue()
        drain()
    result.refresh()
    assert (result.status, len(result.errors), result.attempts) == (TaskResultStatus.SUCCESSFUL, 1, 2)
