"""Tasks on real workers: what they get, what becomes of their results and errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from durable import Retry
from durable.models import OutboxRow, Workflow
from durable.testing import drain
from durable.worker.handlers import slots
from tests.ledger.models import Entry
from tests.tasks import jobs
from tests.tasks.conftest import TASKS, awaited, burst
from tests.tasks.interface import TaskResultStatus
from tests.waiting import Gate, in_thread

pytestmark = pytest.mark.django_db(transaction=True)

SOON = Retry(max_attempts=3, first=timedelta(), jitter=0.0)


def with_options(**options: Any) -> Any:
    return override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": options}, "free": TASKS["free"]})


@pytest.mark.parametrize("job", [jobs.note, jobs.note_async])
def test_a_task_runs_on_a_worker_and_its_result_says_so(job: Any) -> None:
    result = job.enqueue(1, [2], three={"four": None})
    worker = burst()
    assert jobs.seen == [((1, [2]), {"three": {"four": None}})]
    assert result.status == TaskResultStatus.READY  # until it is refreshed
    result.refresh()
    assert (result.status, result.is_finished, result.return_value) == (TaskResultStatus.SUCCESSFUL, True, None)
    assert (result.attempts, result.worker_ids, result.errors) == (1, [worker.name], [])
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at


def test_a_return_value_comes_back_as_json() -> None:
    results = [jobs.answer.enqueue(), jobs.in_tuples.enqueue(), jobs.answer_async.enqueue(3)]
    burst()
    values = [result.task.get_result(result.id).return_value for result in results]
    assert values == [42, {"pair": [1, 2], "text": "abc"}, {"number": 3, "rows": 0}]


def test_async_callers_read_the_same_result() -> None:
    result = awaited(jobs.answer.aenqueue)
    burst()
    assert awaited(jobs.answer.aget_result, result.id).return_value == 42
    awaited(result.arefresh)
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 42, 1)


@pytest.mark.parametrize(
    ("job", "path", "ending"),
    [
        (jobs.fail, "builtins.ValueError", "ValueError: no such street\n"),
        (jobs.fail_async, "builtins.LookupError", "LookupError: not there\n"),
        (jobs.leave, "builtins.SystemExit", "SystemExit: 3\n"),
        (jobs.interrupt, "builtins.KeyboardInterrupt", "KeyboardInterrupt: Ctrl-C\n"),
        (jobs.fail_in_a_class_of_its_own, "tests.tasks.jobs.Lost", "tests.tasks.jobs.Lost: gone\n"),
    ],
)
def test_an_error_is_kept_with_its_class_and_traceback(job: Any, path: str, ending: str) -> None:
    result = job.enqueue()
    burst()
    result.refresh()
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.FAILED, True, 1)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    assert result._return_value is None
    [error] = result.errors
    assert error.exception_class_path == path
    assert issubclass(error.exception_class, BaseException)
    assert f"in {job.func.__name__}\n" in error.traceback
    assert "handlers.py" not in error.traceback  # the engine's own frames are left out
    assert error.traceback.endswith(ending)
    assert result.enqueued_at <= result.started_at <= result.finished_at


def test_the_text_of_an_error_inside_an_error_is_kept() -> None:
    result = jobs.fail_inside.enqueue()
    burst()
    result.refresh()
    assert result.errors[0].exception_class is ValueError
    assert 'ValueError(ValueError("inside"))' in result.errors[0].traceback


def test_a_return_value_that_json_cannot_carry_is_an_error_of_the_task() -> None:
    result = jobs.unwritable.enqueue()
    burst()
    result.refresh()
    assert (result.status, result._return_value) == (TaskResultStatus.FAILED, None)
    assert result.errors[0].exception_class is TypeError
    assert "Unsupported type" in result.errors[0].traceback


def test_arguments_that_do_not_fit_are_an_error_of_the_task() -> None:
    result = jobs.sum_of_two.enqueue(1)
    burst()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is TypeError
    assert "second" in result.errors[0].traceback


def test_failing_tasks_do_not_keep_others_from_running() -> None:
    results = [job.enqueue() for job in (jobs.note, jobs.fail, jobs.note, jobs.leave, jobs.interrupt, jobs.note)]
    burst()
    for result in results:
        result.refresh()
    assert [result.status.value for result in results] == ["SUCCESSFUL", "FAILED"] * 1 + [
        "SUCCESSFUL",
        "FAILED",
        "FAILED",
        "SUCCESSFUL",
    ]


def test_a_burst_without_tasks_ends() -> None:
    burst()


# --- context ---


def test_a_task_with_context_knows_its_result() -> None:
    result = jobs.own_id.enqueue()
    burst()
    result.refresh()
    assert result.return_value == result.id


def test_the_context_says_what_is_true_while_the_task_runs() -> None:
    result = jobs.story.using(priority=5, queue_name="mails", backend="free").enqueue("hello", more=2)
    worker = burst()
    result.refresh()
    assert result.return_value == {
        "attempt": 1,
        "status": "RUNNING",
        "workers": [worker.name],
        "errors": [],
        "args": ["hello"],
        "kwargs": {"more": 2},
        "priority": 5,
        "queue": "mails",
        "backend": "free",
        "times": [True, True, False],
        "word": "hello",
        "more": 2,
    }


def test_an_async_task_gets_its_context_too() -> None:
    result = jobs.story_async.enqueue()
    burst()
    result.refresh()
    assert result.return_value == [1, "RUNNING", 0]


def test_a_later_attempt_knows_the_errors_before_it() -> None:
    with with_options(retry=SOON):
        result = jobs.second_time.enqueue()
        worker = burst()
    result.refresh()
    assert result.return_value == [2, ["builtins.OSError"]]
    assert (result.attempts, result.worker_ids) == (2, [worker.name] * 2)
    assert [error.exception_class for error in result.errors] == [OSError]
    assert result.started_at < result.last_attempted_at < result.finished_at


def test_a_database_that_cannot_be_asked_costs_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is left out of the context then."""
    from django.db import OperationalError

    def away(workflow_id: object) -> None:
        raise OperationalError("no connection")

    with with_options(retry=SOON):
        result = jobs.second_time.enqueue()
        monkeypatch.setattr("durable.tasks.results.look.single", away)
        burst()
    monkeypatch.undo()
    result.refresh()
    assert result.return_value == [2, []]


# --- attempts ---


def test_there_is_one_attempt_unless_the_options_say_more() -> None:
    jobs.fail.enqueue()
    drain(until=timedelta(days=1))
    assert jobs.seen == ["fail"]


ANY_ERROR = Retry(max_attempts=3, first=timedelta(seconds=10), jitter=0.0, no_retry=())


@pytest.mark.parametrize(
    ("retry", "attempts"),
    [
        (ANY_ERROR, 3),
        ({"*": ANY_ERROR}, 3),
        ({"tests.tasks.jobs.fail": ANY_ERROR}, 3),
        ({"tests.tasks.jobs.note": ANY_ERROR}, 1),
        ({"tests.tasks.jobs.fail": Retry(max_attempts=2, no_retry=()), "*": ANY_ERROR}, 2),
        (Retry(max_attempts=3), 1),  # a ValueError is not retried, as for every activity
    ],
)
def test_the_options_say_how_often_a_task_is_tried(retry: Any, attempts: int) -> None:
    with with_options(retry=retry):
        result = jobs.fail.enqueue()
        drain(until=timedelta(days=1))
    assert len(jobs.seen) == attempts
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, attempts)
    assert [error.exception_class for error in result.errors] == [ValueError] * attempts


def test_the_policy_is_that_of_the_backend_that_enqueued_it() -> None:
    tasks = {**TASKS, "free": {**TASKS["free"], "OPTIONS": {"retry": ANY_ERROR}}}
    with override_settings(TASKS=tasks):
        jobs.fail.enqueue()
        drain(until=timedelta(days=1))
        assert len(jobs.seen) == 1
        jobs.fail.using(backend="free").enqueue()
        drain(until=timedelta(days=1))
        assert len(jobs.seen) == 4


def test_between_attempts_a_task_is_ready_and_keeps_its_errors() -> None:
    with with_options(retry=ANY_ERROR):
        result = jobs.fail.enqueue()
        drain()
    result.refresh()
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.READY, False, 1)
    assert result.finished_at is None
    assert result.started_at == result.last_attempted_at is not None
    assert [error.exception_class for error in result.errors] == [ValueError]


# --- which, and in which order ---


def test_higher_priorities_run_first_and_equal_ones_as_they_are_due() -> None:
    now = timezone.now()
    jobs.order.using(priority=-5).enqueue("last")
    jobs.order.enqueue("third")
    jobs.order.using(priority=2).enqueue("second")
    jobs.order.enqueue("fourth")
    jobs.order.using(priority=20, run_after=now - timedelta(hours=2)).enqueue("first")  # due now, as without a time
    jobs.order.using(priority=100, run_after=now + timedelta(hours=10)).enqueue("not today")
    jobs.order.using(run_after=now + timedelta(hours=1)).enqueue("sixth")
    jobs.order.using(run_after=now + timedelta(minutes=1)).enqueue("fifth")
    drain()
    assert jobs.seen == ["first", "second", "third", "fourth", "last"]
    drain(until=timedelta(hours=2))
    assert jobs.seen[5:] == ["fifth", "sixth"]


def test_a_worker_runs_the_queues_that_it_is_given() -> None:
    mail, other = jobs.note.using(queue_name="mails").enqueue(), jobs.answer.enqueue()
    burst(queues=("default",))
    mail.refresh()
    other.refresh()
    assert (mail.status, other.status) == (TaskResultStatus.READY, TaskResultStatus.SUCCESSFUL)
    burst()
    mail.refresh()
    assert mail.status == TaskResultStatus.SUCCESSFUL


def test_a_running_task_says_so_to_others(door: Gate) -> None:
    result = jobs.wait_at.enqueue("door")
    working = in_thread(burst)
    door.wait_for_arrival()
    result.refresh()
    running = (result.status, result.is_finished, result.attempts, len(result.worker_ids))
    times = (result.started_at is not None, result.last_attempted_at is not None, result.finished_at)
    door.open()
    worker = working.result()
    assert running == (TaskResultStatus.RUNNING, False, 1, 1)
    assert times == (True, True, None)
    assert result.worker_ids == [worker.name]
    result.refresh()
    assert result.return_value == "through"


def test_what_a_task_writes_is_there_afterwards() -> None:
    jobs.write_entry.enqueue("written")
    burst()
    assert [entry.label for entry in Entry.objects.all()] == ["written"]


# --- paths that lead to no task ---


@pytest.mark.parametrize(
    "path", ["subprocess.check_output", "missing.func", "tests.tasks.jobs.nothing", "tests.tasks.jobs.seen", "plain"]
)
@override_settings(DURABLE={"UNKNOWN_HANDLER_FOR": timedelta(minutes=5)})
def test_a_row_whose_name_is_no_task_is_put_off_as_any_unknown_activity(path: str) -> None:
    """Somebody has written the row: nothing of what it names is called, or imported."""
    result = jobs.note.enqueue("exit", "1")
    OutboxRow.objects.update(activity=path)
    Workflow.objects.update(type=path)
    drain()
    row = OutboxRow.objects.get(workflow_id=result.id)
    assert (row.status, row.attempts, row.delivery_failures, jobs.seen) == ("pending", 0, 0, [])
    assert row.visible_after > row.created_at
    drain(until=timedelta(days=1))
    row.refresh_from_db()
    assert (row.status, row.cause) == ("dead", "unknown_handler")


def test_a_task_that_is_found_only_by_the_second_look_waits_for_the_right_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A module that could not be imported when the delivery was given a thread, and can be a moment later."""
    looked: list[bool] = []
    real = slots._is_async  # the moment between the look and the thread

    def not_yet(delivery: Any) -> bool:
        looked.append(real(delivery))
        return len(looked) > 1 and looked[-1]

    monkeypatch.setattr(slots, "_is_async", not_yet)
    result = jobs.answer_async.enqueue(1)
    burst()
    result.refresh()
    assert result.return_value == {"number": 1, "rows": 0}
    assert (looked, result.attempts, result.errors) == ([True, True], 1, [])
