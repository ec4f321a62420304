"""Rows for tests that look at rows. They bypass the store on purpose: a test may need rows that no verb would write."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import factory

from durable.kernel.history.events import EventType, MessageKind
from durable.models import DeadLetter, Event, FailedAttempt, Message, OutboxRow, StaffAction, Worker, Workflow, WorkItem
from durable.outcomes import TERMINAL, Cause, OutboxStatus, WorkflowStatus

_counter = itertools.count(1)


def ordered_uuid() -> uuid.UUID:
    """A UUIDv7, strictly greater than the one before it in this process."""
    number = (int(time.time() * 1000) << 80) | (7 << 76) | (2 << 62) | next(_counter)
    return uuid.UUID(int=number)


def now() -> datetime:
    """The host's time."""
    return datetime.now(UTC)


class WorkflowFactory(factory.django.DjangoModelFactory[Workflow]):
    """A running workflow, begun a minute ago; a terminal `status` closes it."""

    class Meta:
        model = Workflow

    id = factory.LazyFunction(ordered_uuid)
    type = "shop.checkout"
    status = WorkflowStatus.RUNNING.value
    input = '{"order_id":42}'
    created_at = factory.LazyFunction(lambda: now() - timedelta(minutes=1))
    closed_at = factory.LazyAttribute(
        lambda row: now() if row.status in {status.value for status in TERMINAL} else None
    )


class EventFactory(factory.django.DjangoModelFactory[Event]):
    """An event of a workflow's history; `seq` and the workflow's `last_seq` are the test's to keep in step."""

    class Meta:
        model = Event

    workflow = factory.SubFactory(WorkflowFactory)
    seq = factory.Sequence(lambda number: number + 1)
    type = EventType.WORKFLOW_STARTED.value
    data: Any = factory.LazyFunction(dict)
    recorded_at = factory.LazyFunction(now)


class OutboxRowFactory(factory.django.DjangoModelFactory[OutboxRow]):
    """A pending row that is due. `status=failed` makes a dead letter."""

    class Meta:
        model = OutboxRow

    workflow = factory.SubFactory(WorkflowFactory)
    run = 1
    ordinal = factory.Sequence(lambda number: number + 1)
    activity = "shop.charge"
    input = '{"order_id":42}'
    status = OutboxStatus.PENDING.value
    visible_after = factory.LazyFunction(now)
    created_at = factory.LazyFunction(now)
    delivery_budget = 8
    attempt_budget = 5
    dead_lettered_at = factory.LazyAttribute(lambda row: now() if row.status == OutboxStatus.DEAD.value else None)


class DeadLetterFactory(OutboxRowFactory):
    """A dead letter whose worker died over it; nobody told the workflow."""

    class Meta:
        model = DeadLetter

    status = OutboxStatus.DEAD.value
    cause = Cause.WORKER_DIED.value
    deliveries = 8
    delivery_failures = 8


class StaffActionFactory(factory.django.DjangoModelFactory[StaffAction]):
    """Somebody gave a dead letter back."""

    class Meta:
        model = StaffAction

    id = factory.LazyFunction(uuid.uuid4)
    verb = "redrive"
    outbox_row = factory.SubFactory(DeadLetterFactory)
    workflow = factory.LazyAttribute(lambda made: made.outbox_row.workflow if made.outbox_row else None)
    ordinal = factory.LazyAttribute(lambda made: made.outbox_row.ordinal if made.outbox_row else None)
    actor_text = "anna"
    through = "admin"
    mode = "eligible"
    reason = "the bank is back"
    was_judged = False
    at = factory.LazyFunction(now)


class WorkItemFactory(factory.django.DjangoModelFactory[WorkItem]):
    """A delivery that is out, of a claimed row, held for another minute."""

    class Meta:
        model = WorkItem

    outbox_row = factory.SubFactory(OutboxRowFactory, status=OutboxStatus.CLAIMED.value, deliveries=1)
    workflow = factory.SelfAttribute("outbox_row.workflow")
    lock_token = factory.LazyFunction(uuid.uuid4)
    locked_until = factory.LazyFunction(lambda: now() + timedelta(minutes=1))
    worker = "worker-1"
    attempts = 0
    attempt_budget = 5
    delivery_failures = 0
    delivery_budget = 8
    single = False


class MessageFactory(factory.django.DjangoModelFactory[Message]):
    """A signal that is due."""

    class Meta:
        model = Message

    workflow = factory.SubFactory(WorkflowFactory)
    run = 1
    kind = MessageKind.SIGNAL.value
    payload = json.dumps({"name": "approval", "payload": "true"})
    visible_at = factory.LazyFunction(now)
    created_at = factory.LazyFunction(now)


class FailedAttemptFactory(factory.django.DjangoModelFactory[FailedAttempt]):
    """An attempt whose handler raised."""

    class Meta:
        model = FailedAttempt

    outbox_row = factory.SubFactory(OutboxRowFactory)
    number = factory.Sequence(lambda number: number + 1)
    worker = "worker-1"
    started_at = factory.LazyFunction(now)
    ended_at = factory.LazyFunction(now)
    cause = Cause.APPLICATION_ERROR.value
    error: Any = factory.LazyFunction(
        lambda: {"type": "builtins.OSError", "message": "the bank is closed", "traceback": "Traceback: line 1"}
    )


class WorkerFactory(factory.django.DjangoModelFactory[Worker]):
    """A worker that has just given a sign of life."""

    class Meta:
        model = Worker

    name = factory.Sequence(lambda number: f"worker-{number}")
    queues: Any = factory.LazyFunction(lambda: ["default"])
    started_at = factory.LazyFunction(now)
    beat_at = factory.LazyFunction(now)
    version = "abc123"


def history_of(workflow: Workflow, *, length: int) -> None:
    """`length` events of a plausible history: started, then activities that were scheduled and completed in turn."""
    made: Any = Event
    events = [made(workflow=workflow, seq=1, type=EventType.WORKFLOW_STARTED.value, data={"type": workflow.type})]
    for seq in range(2, length + 1):
        ordinal = seq // 2
        kind, data = (
            (EventType.ACTIVITY_SCHEDULED, {"activity": "shop.charge", "digest": "0" * 16})
            if seq % 2 == 0
            else (EventType.ACTIVITY_COMPLETED, {"result": '"ok"'})
        )
        events.append(made(workflow=workflow, seq=seq, type=kind.value, ordinal=ordinal, data=data))
    for event in events:
        event.recorded_at = now()
    Event.objects.bulk_create(events, batch_size=500)
    Workflow.objects.filter(pk=workflow.pk).update(last_seq=length)
    workflow.last_seq = length
