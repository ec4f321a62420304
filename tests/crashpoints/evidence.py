"""What has to be the same however the story was disturbed, and what must hold of the rows at any moment."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from durable.flow.looks import prove
from durable.kernel.history.events import CLOSING, DIGEST_KEY, EventType
from durable.models import Event, FailedAttempt, Message, OutboxRow, StaffAction, Workflow, WorkItem
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests.crashpoints import cases
from tests.ledger.models import Entry

AT_LEAST_ONCE = "journey packed"
"""The one effect that is not transactional: a death between it and its acknowledgement repeats it."""

OUTCOMES = (EventType.ACTIVITY_COMPLETED.value, EventType.ACTIVITY_FAILED.value)
SETTLED = (*OUTCOMES, EventType.ACTIVITY_CANCELLED.value)


@dataclass(frozen=True)
class Evidence:
    """All that may not differ between two tellings of the story. Workflows by their keys."""

    results: dict[str, Any]
    histories: dict[str, list[Any]]
    ledger: dict[str, int]
    audits: list[Any]
    rows: dict[str, Any]
    left: dict[str, int]


def gather() -> Evidence:
    """Read it. Left out is what may differ between two tellings.

    - moments, ids, tokens, the id of a terminate's request, and digests with the key of their run;
    - the order of outcomes of one fan-out that come one behind the other: they are listed by ordinal. Which of three
      deliveries ends first is nobody's promise, and the code behind a gather can not tell;
    - how often a row was delivered, how many of these deliveries failed and why (`FailedAttempt`, `deliveries`,
      `delivery_failures`, and the cause in the text of a failure of delivery). `halves` proves that they add up;
    - `attempts` of the handlers that write to the ledger: the fault may be theirs, and is an application error then.
    """
    keys = {id: key or "" for id, key in Workflow.objects.values_list("id", "key")}
    ledger = Counter(Entry.objects.values_list("label", flat=True))
    packed = ledger.pop(AT_LEAST_ONCE, 0)
    assert packed >= 1, "What at least once had to be done was not done."
    return Evidence(
        results={
            keys[w.id]: (w.status, w.result, _failure(w.failure), w.blocked_reason, w.wake_at is None)
            for w in Workflow.objects.all()
        },
        histories=_histories(keys),
        ledger=dict(ledger),
        audits=sorted(
            (keys[a.workflow_id], a.verb, a.ordinal or 0, a.mode, a.actor_text, a.reason, bool(a.was_judged))
            for a in StaffAction.objects.all()
            if a.workflow_id is not None
        ),
        rows={
            f"{keys[row.workflow_id]} {row.run} {row.ordinal}": (
                row.activity,
                row.status,
                row.failure_delivered,
                row.redrive_count,
                row.paused,
                row.suspect,
                row.discarded_at is not None,
                None if row.activity in (cases.book.name, cases.pack.name) else row.attempts,
            )
            for row in OutboxRow.objects.all()
        },
        left={model.__name__: model.objects.count() for model in (WorkItem, Message)},
    )


def _histories(keys: dict[uuid.UUID, str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {key: [] for key in keys.values()}
    for event in Event.objects.order_by("workflow_id", "seq"):
        found[keys[event.workflow_id]].append((event.type, event.ordinal, _data(event.data)))
    return {key: _by_ordinal(events) for key, events in found.items()}


def _by_ordinal(events: list[Any]) -> list[Any]:
    """Outcomes that follow each other, by ordinal; everything else where it is."""
    ordered: list[Any] = []
    for _, group in groupby(events, key=lambda event: event[0] in OUTCOMES):
        together = list(group)
        ordered += sorted(together, key=lambda event: event[1]) if together[0][0] in OUTCOMES else together
    return ordered


def _data(data: dict[str, Any]) -> dict[str, Any]:
    # The version is of all that a process has registered.
    of_the_process = ("request", "digest", DIGEST_KEY, "version", "child", "to", "refused", "holder", "parent")
    told = {name: value for name, value in data.items() if name not in of_the_process}
    if "failure" in told:
        told["failure"] = _failure(told["failure"])
    if "reason" in told:
        told["reason"] = _ID.sub("…", told["reason"])
    return told


_ID = re.compile(r"[0-9a-f-]{36}")


def _failure(failure: dict[str, str] | None) -> Any:
    """Without the traceback; of a delivery that failed, without the cause, which is that of the last of them."""
    if failure is None:
        return None
    message = failure["message"].split(":")[0] if failure["type"] == "DeliveryFailed" else failure["message"]
    return failure["type"], message


# --- what holds at any moment --------------------------------------------------------------------------------------


def halves() -> list[str]:
    """Every row that says half of something, in words. Holds between any two transactions (docs/lifecycle.md)."""
    found = [f"{c.subject}: {c.text}" for c in prove.contradictions()]
    workflows = {w.id: w for w in Workflow.objects.all()}
    rows = list(OutboxRow.objects.all())
    items = {item.outbox_row_id: item for item in WorkItem.objects.all()}
    messages = list(Message.objects.all())
    events: dict[uuid.UUID, list[Event]] = {}
    for event in Event.objects.order_by("workflow_id", "seq"):
        events.setdefault(event.workflow_id, []).append(event)
    for workflow in workflows.values():
        found += [f"{workflow.key}: {text}" for text in _of_workflow(workflow, events.get(workflow.id, []), messages)]
        found += [f"{workflow.key}: {text}" for text in _of_children(workflow, workflows, events, messages)]
    failures = Counter(FailedAttempt.objects.values_list("outbox_row_id", flat=True))
    audits = Counter(StaffAction.objects.values_list("outbox_row_id", flat=True))
    effects = Counter(Entry.objects.values_list("label", flat=True))
    for row in rows:
        owner = workflows[row.workflow_id]
        of_it = [event for event in events[owner.id] if event.ordinal == row.ordinal]
        waiting = [m for m in messages if m.workflow_id == owner.id and m.ordinal == row.ordinal]
        texts = [
            *_of_row(row, owner, row.id in items),
            *_of_counts(row, row.id in items, failures[row.id], meddled_with=_may_be_meddled_with(row, owner)),
            *_of_outcome(row, owner, of_it, waiting),
        ]
        marks = sum(e.type in (EventType.ACTIVITY_REDRIVEN, EventType.ACTIVITY_DISCARDED) for e in of_it)
        if audits[row.id] != marks:
            texts.append(f"{audits[row.id]} audits and {marks} marks in the history")
        if row.activity == cases.book.name:
            label = row.input.split('"')[-2]
            if effects[label] != (row.status == OutboxStatus.DONE):
                texts.append(f"it is {row.status}, and {effects[label]} rows of the ledger say {label!r}")
        found += [f"{owner.key} {row.ordinal}: {text}" for text in texts]
    return found


def _of_workflow(workflow: Workflow, events: list[Event], messages: list[Message]) -> list[str]:
    found = []
    over = WorkflowStatus(workflow.status).is_terminal
    closing = [event.seq for event in events if event.type in CLOSING]
    if closing != ([workflow.last_seq] if over else []):
        found.append(f"it is {workflow.status}, with closing events at {closing} of {workflow.last_seq}")
    waiting = [m for m in messages if m.workflow_id == workflow.id]
    due = [m.kind for m in waiting if not m.parked or m.kind not in ("signal", "cancel")]
    if over and (due or workflow.wake_at is not None):
        found.append(f"it is over, and wakes at {workflow.wake_at} for {due}")
    begun = any(event.type != EventType.WORKFLOW_STARTED for event in events)
    if (
        not workflow.single
        and not over
        and sum(m.kind == "start" for m in waiting) != (not begun or _only_blocked(events))
    ):
        found.append("its start waits and was consumed, or neither")
    if workflow.result is not None and events[-1].data.get("result") != workflow.result:
        found.append("it has a result that its history does not know")
    return found


def _of_children(
    parent: Workflow,
    workflows: dict[uuid.UUID, Workflow],
    events: dict[uuid.UUID, list[Event]],
    messages: list[Message],
) -> list[str]:
    """The parent's event and the child's row: both or neither. An end waits for the parent, or is in its history."""
    of_parent = events.get(parent.id, [])
    starts = [e for e in of_parent if e.type == EventType.CHILD_STARTED and "refused" not in e.data]
    rows = [one for one in workflows.values() if one.parent_id == parent.id]
    found = []
    if sorted(event.data["child"] for event in starts) != sorted(str(one.id) for one in rows):
        found.append(f"its history has started {len(starts)} children, and {len(rows)} have it as their parent")
    if parent.children != len(rows):
        found.append(f"it counts {parent.children} children of {len(rows)}")
    for child in rows:
        ends = (EventType.CHILD_COMPLETED, EventType.CHILD_FAILED, EventType.CHILD_CANCELLED)
        heard = [event.type for event in of_parent if event.data.get("child") == str(child.id) and event.type in ends]
        waiting = [m for m in messages if m.workflow_id == parent.id and str(child.id) in m.payload]
        given_up = EventType.CHILD_CANCELLED in heard
        if len(heard) > 1 or (len(heard) + len(waiting) > 1 and not given_up):
            found.append(f"it has heard of the end of {child.key} {len(heard) + len(waiting)} times")
        both_live = not WorkflowStatus(parent.status).is_terminal
        if WorkflowStatus(child.status).is_terminal and both_live and not heard and not waiting:
            found.append(f"{child.key} has ended, and nobody was told")
    return found


def _only_blocked(events: list[Event]) -> bool:
    """Blocked before it has begun: its start still waits."""
    kinds = {event.type for event in events} - {EventType.WORKFLOW_STARTED}
    return kinds <= {EventType.WORKFLOW_BLOCKED, EventType.WORKFLOW_PAUSED, EventType.WORKFLOW_RESUMED}


def _of_row(row: OutboxRow, owner: Workflow, out: bool) -> list[str]:
    found = []
    status = OutboxStatus(row.status)
    if out is not (status is OutboxStatus.CLAIMED):
        found.append(f"it is {status}, and {'a' if out else 'no'} work item stands for it")
    is_open = status in (OutboxStatus.PENDING, OutboxStatus.CLAIMED)
    if is_open and row.paused is not (owner.status == WorkflowStatus.PAUSED):
        found.append(f"paused is {row.paused}, and its workflow is {owner.status}")
    if is_open or (status is OutboxStatus.DEAD and not _may_be_meddled_with(row, owner)):
        expected = not WorkflowStatus(owner.status).is_terminal
    else:
        expected = True
    if not expected:
        found.append(f"it is {status} under a workflow that is {owner.status}")
    return found


def _may_be_meddled_with(row: OutboxRow, owner: Workflow) -> bool:
    """The story changes one row by hand, once its workflow is over: done to failed, which settling makes cancelled."""
    return owner.key == "calm" and WorkflowStatus(owner.status).is_terminal


def _of_counts(row: OutboxRow, out: bool, failures: int, *, meddled_with: bool) -> list[str]:
    """Each delivery is out, or was counted for what ended it, once."""
    accounted = row.attempts + row.delivery_failures + out
    if row.status == OutboxStatus.CANCELLED:
        # The last delivery of a cancelled row may have ended with it.
        if not accounted <= row.deliveries <= accounted + 1:
            return [f"{row.deliveries} deliveries, {accounted} accounted for"]
    elif row.deliveries != accounted:
        return [f"{row.deliveries} deliveries, {accounted} accounted for"]
    succeeded = (row.status == OutboxStatus.DONE or meddled_with) and row.activity != cases.broke.name
    kept = row.attempts - succeeded + row.delivery_failures
    if not kept <= failures <= kept + (row.status == OutboxStatus.CANCELLED):
        return [f"{failures} failed attempts are kept, {kept} were counted"]
    return []


def _of_outcome(row: OutboxRow, owner: Workflow, events: list[Event], waiting: list[Message]) -> list[str]:
    """An outcome waits for the workflow's turn, or is in its history; never both, never twice."""
    if owner.single:
        return []
    settled = [event.type for event in events if event.type in SETTLED]
    found = []
    if [event.type for event in events].count(EventType.ACTIVITY_SCHEDULED) != 1:
        found.append("it was not scheduled exactly once")
    if len(settled) > 1 or len(waiting) > 1:
        found.append(f"{len(settled)} outcomes recorded, {len(waiting)} waiting")
    if settled and waiting and not row.redrive_count:
        found.append(f"{settled} recorded, and {waiting[0].kind} waits")
    over = WorkflowStatus(owner.status).is_terminal
    told = row.status == OutboxStatus.DONE or row.failure_delivered
    if told and not over and not settled and not waiting:
        found.append(f"it is {row.status}, and nobody was told")
    if waiting and row.status not in (OutboxStatus.DONE, OutboxStatus.DEAD, OutboxStatus.CANCELLED):
        found.append(f"it is {row.status}, and {waiting[0].kind} waits")
    return found
