"""What the pictures show: a shop on a day on which the bank was closed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User

from durable.kernel.history.events import EventType
from durable.models import OutboxRow, Workflow
from tests import factories

_CLOSED = {
    "type": "shop.errors.BankClosed",
    "message": "The bank is closed until Monday.",
    "traceback": 'Traceback (most recent call last):\n  File "shop/activities.py", line 31, in charge\n'
    "    bank.charge(order_id, amount)\nshop.errors.BankClosed: The bank is closed until Monday.",
}


def build() -> dict[str, Any]:
    """Fills an empty database, and returns the rows that have a page in a picture."""
    now = factories.now()
    User.objects.create_superuser("anna")
    for number in range(1, 4):
        factories.WorkerFactory(name=f"web-{number}:default", started_at=now - timedelta(hours=5))
    letters = [_letter(number) for number in range(1, 9)]
    blocked = _workflow("order-117", now, blocked_reason="Event 7: the history records shop.charge, the code asks for "
                        "shop.reserve.", blocked_version="9f2c41d", error_class="NonDeterminism")  # fmt: skip
    running = _workflow("order-118", now)
    row = factories.OutboxRowFactory(
        workflow=running, ordinal=2, activity="shop.send_parcel", status="claimed", attempts=2
    )
    factories.FailedAttemptFactory(outbox_row=row, number=1, error=_CLOSED)
    factories.WorkItemFactory(outbox_row=row, worker="web-1:default")
    factories.MessageFactory(workflow=running)
    factories.OutboxRowFactory(queue="reports", workflow=_workflow("report-5", now),
                               visible_after=now - timedelta(minutes=12))  # fmt: skip
    factories.StaffActionFactory(outbox_row=letters[0], reason="The bank is back.", at=now - timedelta(hours=1))
    return {"letter": letters[0], "letters": letters, "running": running, "blocked": blocked}


def _workflow(key: str, now: Any, **columns: Any) -> Workflow:
    workflow: Workflow = factories.WorkflowFactory(key=key, created_at=now - timedelta(hours=3), **columns)
    factories.history_of(workflow, length=5)
    return workflow


def _letter(number: int) -> OutboxRow:
    now = factories.now() - timedelta(minutes=17 * number)
    workflow = factories.WorkflowFactory(key=f"order-{100 + number}", last_seq=2, created_at=now - timedelta(hours=2))
    row: OutboxRow = factories.DeadLetterFactory(
        workflow=workflow,
        ordinal=1,
        activity="shop.charge" if number % 3 else "shop.send_parcel",
        cause="retries_exhausted" if number % 2 else "worker_died",
        attempts=5 if number % 2 else 1,
        deliveries=5 if number % 2 else 8,
        delivery_failures=0 if number % 2 else 8,
        dead_lettered_at=now,
        failure_delivered=number % 4 == 0,
        redrive_count=1 if number == 1 else 0,
        error_class="shop.errors.BankClosed",
        error_group="0123456789abcdef",
    )
    factories.EventFactory(
        workflow=workflow, seq=1, type=EventType.WORKFLOW_STARTED.value, data={"type": workflow.type}
    )
    factories.EventFactory(workflow=workflow, seq=2, type=EventType.ACTIVITY_SCHEDULED.value, ordinal=1,
                           data={"activity": row.activity})  # fmt: skip
    for attempt in range(1, 4):
        at = now - timedelta(minutes=5 * (4 - attempt))
        factories.FailedAttemptFactory(
            outbox_row=row, number=attempt, error=_CLOSED, worker="web-1:default", started_at=at, ended_at=at
        )
    return row
