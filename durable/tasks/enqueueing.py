"""Enqueues a task as a single activity, in the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from durable import tracing
from durable.client import ids
from durable.conf import settings
from durable.errors import OptionInvalid
from durable.flow.caller import enqueue as enqueueing
from durable.kernel.codec import encode_arguments
from durable.kernel.definitions.options import ActivityOptions, resolve
from durable.kernel.definitions.retry import Retry
from durable.tasks import finding, results
from durable.tasks.interface import InvalidTask, Task, normalize_json


def enqueue(
    task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, backend: str, retry: Retry
) -> uuid.UUID:
    """Inserts the row of a task and returns its id. Everything is checked before anything is written.

    Raises `InvalidTask`; `TypeError` or `ValueError` for what JSON cannot carry; `PayloadTooLarge`.
    """
    activity = finding.activity_of(task)
    positional: Any = normalize_json(list(args))
    named: Any = normalize_json(dict(kwargs))
    try:
        options = ActivityOptions(
            queue=task.queue_name, priority=int(task.priority), retry=retry, start_at=_aware(task.run_after)
        )
    except OptionInvalid as refused:
        raise InvalidTask(str(refused)) from None
    terms = resolve(options.as_data(), activity, settings)
    workflow_id = ids.new()
    payload = encode_arguments(activity, tuple(positional), named, codec=settings.codec(), workflow_id=workflow_id)
    with tracing.asking("enqueue", activity.name):
        new = enqueueing.new_activity(
            id=workflow_id,
            activity=activity.name,
            payload=payload,
            queue=terms.queue,
            priority=terms.priority or 0,
            start_at=options.start_at,
            options={**terms.options, results.OPTION: results.as_option(backend, task)},
            attempt_budget=terms.attempt_budget,
            delivery_budget=terms.delivery_budget,
        )
        enqueueing.enqueue([new])
    return workflow_id


def _aware(at: datetime | None) -> datetime | None:
    """A time without a zone, which the interface takes where `USE_TZ` is off, is one in the project's zone."""
    return at if at is None or timezone.is_aware(at) else timezone.make_aware(at)
