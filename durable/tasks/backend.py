"""`DurableBackend`: Django's task interface on the engine."""

from __future__ import annotations

import inspect
import uuid
from typing import Any, ParamSpec, TypeVar, cast

from django.apps import apps
from django.core.checks import CheckMessage, Error

from durable.errors import KeyInvalid
from durable.kernel.definitions.options import check_name, check_text
from durable.kernel.limits import MAX_QUEUE_LENGTH
from durable.tasks import chosen, finding, notices
from durable.tasks.interface import (
    BaseTaskBackend,
    InvalidTask,
    InvalidTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)

P = ParamSpec("P")
R = TypeVar("R")


class DurableBackend(BaseTaskBackend):
    """Runs tasks as single activities, on the workers of `manage.py runworker`.

    `OPTIONS` may have `retry` (a `durable.Retry`, or a dict from paths of tasks to such; else one attempt) and
    `modules` (modules outside of the installed apps in which tasks are defined).
    """

    # Nothing here imports a model: backends are made by `@task`, which may stand in an app's `models` module.

    is_durable = True
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.chosen = chosen.read(alias, self.options)
        finding.serve(alias, self.chosen.modules)
        notices.listen(DurableBackend)

    def validate_task(self, task: Task[..., Any]) -> None:
        """Raises `InvalidTask` for a task that this backend cannot run."""
        super().validate_task(task)
        try:
            check_name("task", task.module_path)
            check_text("queue", task.queue_name, MAX_QUEUE_LENGTH)
        except KeyInvalid as refused:
            raise InvalidTask(str(refused)) from None
        if inspect.isgeneratorfunction(task.func) or inspect.isasyncgenfunction(task.func):
            raise InvalidTask(f"{task.module_path} is a generator, which has no single result. Return a list.")

    def enqueue(self, task: Task[P, R], args: Any, kwargs: Any) -> TaskResult[P, R]:
        """Enqueues a task in the caller's transaction: it does not run before the commit, and never after a rollback.

        Raises `InvalidTask`, `InvalidTaskBackend` for wrong `OPTIONS`, `TypeError` or `ValueError` for arguments that
        JSON cannot carry, and `PayloadTooLarge`.
        """
        from durable.client import places
        from durable.tasks import enqueueing

        places.synchronous(f"{task.name}.enqueue(...)", f"{task.name}.aenqueue(...)")
        self._demand_options()
        self.validate_task(task)
        retry = self.chosen.retry_of(task.module_path)
        result_id = enqueueing.enqueue(task, args, kwargs, backend=self.alias, retry=retry)
        result = cast("TaskResult[P, R]", self.get_result(str(result_id)))
        task_enqueued.send(type(self), task_result=result)
        return result

    async def aenqueue(self, task: Task[P, R], args: Any, kwargs: Any) -> TaskResult[P, R]:
        """`enqueue` for async callers."""
        from durable.client import places

        places.outside_workflows(f"{task.name}.aenqueue(...)")
        return await super().aenqueue(task, args, kwargs)

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        """The result of a task, as it stands in the database. Any backend of this kind returns it.

        Raises `TaskResultDoesNotExist`; `InvalidTask` if the task of the result is no longer there; `PayloadError` if
        the codec cannot read it.
        """
        try:
            workflow_id = uuid.UUID(str(result_id))
        except ValueError:
            raise TaskResultDoesNotExist(result_id) from None
        from durable.tasks import results

        result = results.result_of(workflow_id)
        if result is None:
            raise TaskResultDoesNotExist(result_id)
        return result

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """E014 and E015: wrong `OPTIONS`; the app is not installed."""
        messages: list[CheckMessage] = [*super().check(**kwargs)]
        if not apps.is_installed("durable"):
            messages.append(
                Error(
                    f"TASKS[{self.alias!r}] names durable's backend, but the app is not installed.",
                    hint="Add 'durable' to INSTALLED_APPS.",
                    id="durable.E015",
                )
            )
            return messages
        messages += [Error(fault, hint=cure, id="durable.E014") for fault, cure in self.chosen.problems]
        messages += [
            Error(
                f"TASKS[{self.alias!r}]['OPTIONS']['retry'] has a policy for {path!r}, where there is no task.",
                hint="Write the path as `task.module_path` has it.",
                id="durable.E014",
            )
            for path in self.chosen.retries
            if path != chosen.ALL_OTHERS and finding.task_at(path) is None
        ]
        return messages

    def _demand_options(self) -> None:
        if self.chosen.problems:
            raise InvalidTaskBackend(" ".join(f"{fault} {cure}" for fault, cure in self.chosen.problems))
