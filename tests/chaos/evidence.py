"""What has to hold of the rows after a storm, and what is stuck when it does not end."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from typing import Any

from durable.flow.looks import look, prove
from durable.kernel.history.events import Event, EventType
from durable.models import FailedAttempt, Message, OutboxRow, Workflow, WorkItem
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests.flow.state import everything
from tests.ledger.models import Entry

OUTCOMES = frozenset({EventType.ACTIVITY_COMPLETED, EventType.ACTIVITY_FAILED, EventType.ACTIVITY_CANCELLED})
JOURNEY_ONCE = ("booked", "middle", "home")
"""Effects of the transactional activities of a journey."""
JOURNEY_AGAIN = ("first", "left", "right")
"""Effects of the others, which a death between effect and acknowledgement repeats."""


def history(workflow_id: uuid.UUID) -> list[Event]:
    """All events."""
    return look.history(workflow_id, limit=1000)


def open_ones(ids: Iterable[uuid.UUID]) -> list[uuid.UUID]:
    """Those that have not ended."""
    closed = set(Workflow.objects.filter(closed_at__isnull=False).values_list("id", flat=True))
    return [workflow_id for workflow_id in ids if workflow_id not in closed]


def what_is_stuck(ids: Iterable[uuid.UUID]) -> str:
    """For people: the first open workflows with everything that waits for them."""
    still = open_ones(ids)
    lines = [f"{len(still)} workflows have not ended:"]
    for workflow in Workflow.objects.filter(id__in=still[:5]):
        lines.append(
            f"{workflow.id} {workflow.type} {workflow.status} blocked={workflow.blocked_reason!r} "
            f"poison={workflow.poison_turns} wake_at={workflow.wake_at}"
        )
        lines += [f"  event {event.seq} {event.type}" for event in history(workflow.id)[-3:]]
        lines += [f"  message {row}" for row in Message.objects.filter(workflow=workflow).values()]
        waiting = OutboxRow.objects.filter(workflow=workflow).exclude(status=OutboxStatus.DONE)
        fields = ("ordinal", "status", "suspect", "visible_after", "deliveries", "delivery_failures", "cause")
        lines += [f"  row {row}" for row in waiting.values(*fields)]
        lines += [f"  item {row}" for row in WorkItem.objects.filter(workflow=workflow).values()]
    return "\n".join(lines)


def assert_journeys_ended_well(labels: dict[uuid.UUID, str]) -> None:
    """All completed; each outcome once; transactional effects exactly once, the others at least once; nothing left."""
    for workflow_id, label in labels.items():
        seen = look.snapshot(workflow_id)
        assert (seen.status, seen.result) == (WorkflowStatus.COMPLETED, f'"{label} arrived"'), f"{label}: {seen}"
        assert_each_outcome_once(history(workflow_id))
    count = Counter(Entry.objects.values_list("label", flat=True))
    for label in labels.values():
        assert {effect: count[f"{label} {effect}"] for effect in JOURNEY_ONCE} == dict.fromkeys(JOURNEY_ONCE, 1)
        assert all(count[f"{label} {effect}"] >= 1 for effect in JOURNEY_AGAIN)
    assert_nothing_is_left()


def assert_each_outcome_once(events: list[Event]) -> None:
    """Of one history: numbers without gaps, one outcome for each activity, one end, and it comes last."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    scheduled = Counter(event.ordinal for event in events if event.type is EventType.ACTIVITY_SCHEDULED)
    outcomes = Counter(event.ordinal for event in events if event.type in OUTCOMES)
    assert outcomes == scheduled
    assert set(outcomes.values()) <= {1}
    kinds = Counter(event.type for event in events)
    assert kinds[EventType.WORKFLOW_COMPLETED] == 1
    assert events[-1].type is EventType.WORKFLOW_COMPLETED
    assert kinds[EventType.SIGNAL_RECEIVED] <= 1
    assert kinds[EventType.TIMER_FIRED] <= 1


def assert_nothing_is_left() -> None:
    """No delivery is out, no message is due, nothing is a dead letter, and rows and histories agree."""
    assert list(WorkItem.objects.values()) == []
    assert list(Message.objects.exclude(kind="signal", parked=True).values()) == []
    assert list(OutboxRow.objects.exclude(status=OutboxStatus.DONE).values()) == []
    assert prove.contradictions() == []


def standing() -> dict[str, list[dict[str, Any]]]:
    """Every row of every table that work is in, but for the signs of life that a renewal leaves."""
    rows = everything()
    for item in rows["WorkItem"]:
        del item["locked_until"]
    return rows


def lost_attempts() -> Counter[str]:
    """How often which cause ended a delivery."""
    return Counter(FailedAttempt.objects.values_list("cause", flat=True))
