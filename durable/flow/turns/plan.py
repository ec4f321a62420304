"""The plan of one workflow's turn, before any of it is written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from durable.conf import settings
from durable.flow.endings.family import Ended
from durable.kernel.definitions.options import Terms, resolve
from durable.kernel.definitions.registry import registry
from durable.kernel.history.commands import (
    CancelActivity,
    CancelChild,
    CancelWorkflow,
    Command,
    CompleteWorkflow,
    Ending,
    FailWorkflow,
    RecordPatch,
    RecordUnreadable,
    ScheduleActivity,
    SendSignal,
    StartChild,
)
from durable.kernel.history.events import TRACE, Event, EventType
from durable.kernel.history.known import PATCH, UNREADABLE
from durable.kernel.history.room import HISTORY_FULL
from durable.kernel.replay.execution import Execution
from durable.outbound import Departure
from durable.outcomes import Failure, WorkflowStatus
from durable.store.deliveries.staging import NewRow
from durable.store.runs.beginnings import new_workflow
from durable.store.runs.messages import NewMessage
from durable.store.runs.starts import NewWorkflow, ParentCall
from durable.store.runs.workflows import LockedWorkflow, Progress
from durable.store.texts import failures
from durable.store.texts.failures import StoredFailure
from durable.tracing import Turn

_EVENT_BYTES = 100
"""Roughly the size of an event without its payload."""


@dataclass(frozen=True, slots=True)
class Closing:
    """How a workflow ends. The event is appended when the unread messages are known."""

    type: EventType
    status: WorkflowStatus
    data: Mapping[str, Any] = field(repr=False)
    result: str | None = field(default=None, repr=False)
    failure: StoredFailure | None = None
    error: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Plan:
    """The facts, rows and changes of one workflow's turn. Nothing in here is written yet."""

    workflow: LockedWorkflow
    at: datetime
    terms: dict[str, Terms] = field(default_factory=dict)
    """The terms of activities called without options, by name. Shared by the plans of a batch."""
    execution: Execution | None = None
    patches: dict[str, bool] | None = None
    """What the run has answered to `patched` up to the last planned event, if there is more than is stored."""
    events: list[Event] = field(default_factory=list)
    rows: list[NewRow] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    children: list[NewWorkflow] = field(default_factory=list)
    refused_children: int = 0
    sent: list[SendSignal] = field(default_factory=list)
    given_up: list[uuid.UUID] = field(default_factory=list)
    """Children that it no longer awaits, and that are asked to cancel."""
    answers: list[NewMessage] = field(default_factory=list)
    """To itself: what became of what it has asked of others."""
    consumed: list[int] = field(default_factory=list)
    later: dict[int, datetime] = field(default_factory=dict)
    closing: Closing | None = None
    closing_at: datetime | None = None
    blocked: str = ""
    blocked_by: str = ""
    out_of_memory: bool = False
    """Whether it is blocked because its code found no memory: what it has left behind is collected at once."""
    raised: BaseException | None = field(default=None, compare=False, repr=False)
    """The error of a bug in its code, which blocks it."""
    poisoned: bool = False
    unknown: bool = False
    full: bool = False
    """Whether the history has no room for signals: they stay unread."""
    again: bool = False
    """Whether it has to be turned again when its signals are parked."""
    added: int = 0
    """About how many bytes the events planned so far have."""
    traced: Turn | None = None
    """Its span, and the trace that its rows go on with; None while its code has not run."""
    said: Sequence[Departure] = ()
    """Lines and signals of the code's run: they are emitted with the commit."""

    @property
    def history_bytes(self) -> int:
        """About how long the history will be."""
        return self.workflow.history_bytes + self.added

    @property
    def history_events(self) -> int:
        """How many events the current history has with those planned so far."""
        last_seq = self.events[-1].seq if self.events else self.workflow.last_seq
        return last_seq - self.workflow.history_seq + 1

    @property
    def last_seq(self) -> int:
        """The sequence number of the last event planned so far, the closing one left out."""
        return self.events[-1].seq if self.events else self.workflow.last_seq

    @property
    def deadline_at(self) -> datetime | None:
        """When its time is up. The time for which it was blocked until now does not count."""
        return None if self.workflow.deadline_at is None else self.workflow.deadline(self.at)

    def append(self, type: EventType, data: Mapping[str, Any]) -> None:
        """Plans an event that is neither an input of the code nor a command of it."""
        self.events.append(Event(seq=self.last_seq + 1, type=type, data=data, recorded_at=self.at))

    def add(self, event: Event, commands: tuple[Command, ...]) -> None:
        """Plans the events of one activation: its input and one event per command. The first input, `workflow_started`,
        is already in the history; if it has no commands, an additional event records when the workflow began.
        """
        self.added += _EVENT_BYTES * (1 + len(commands))
        if event.seq > self.last_seq:
            self.events.append(event)
        elif not commands:
            self._record(EventType.WORKFLOW_BEGUN, {}, event.recorded_at, None)
        for command in commands:
            self._command(command, event.recorded_at)
        if self.closing is not None:
            self.closing_at = event.recorded_at

    def keep_answers(self, execution: Execution) -> None:
        """Keeps the answers of what is replayed or planned so far: an activation that blocks has answered nothing."""
        if execution.patches.is_new:
            self.patches = dict(execution.patches.answers)

    def amend(self, ordinal: int, **data: Any) -> None:
        """Adds to the planned event of a call what the transaction has found out."""
        at = next(i for i, event in enumerate(self.events) if event.ordinal == ordinal and event.type in _AMENDED)
        self.events[at] = replace(self.events[at], data={**self.events[at].data, **data})

    def closing_event(self, unread: Mapping[str, Any]) -> Event:
        """The event that ends the workflow, with the list of unread messages."""
        assert self.closing is not None
        data = {**self.closing.data, **unread}
        return Event(seq=self.last_seq + 1, type=self.closing.type, data=data, recorded_at=self.closing_at or self.at)

    def ended(self) -> Ended | None:
        """The end of the workflow, for its parent and its children; None if it goes on."""
        end = self.closing
        if end is None:
            return None
        reason = str(end.data.get("reason") or "")
        return Ended(self.workflow, end.status, end.result, end.failure, reason, self.started_children)

    def progress(self) -> Progress | None:
        """The new state of the workflow's row. `None`: its type is not known here, and it stays as it is."""
        workflow = self.workflow
        if self.unknown:
            return None
        if self.closing is not None:
            return Progress(
                id=workflow.id,
                status=self.closing.status,
                last_seq=self.last_seq + 1,
                wake_at=None,
                result=self.closing.result,
                failure=self.closing.failure,
                closed_at=self.closing_at or self.at,
                children=self.started_children,
                patches=self.patches,
            )
        if self.blocked:
            still = workflow.stands_still and self.blocked_by != HISTORY_FULL
            return Progress(
                id=workflow.id,
                status=workflow.status,
                last_seq=self.last_seq,
                wake_at=self._ends_at() if self.blocked_by == HISTORY_FULL else None,
                blocked_reason=failures.reason(self.blocked, workflow.id),
                blocked_version=registry.version(),
                blocked_at=workflow.blocked_at if still else self.at,
                deadline_at=None if still else self.deadline_at,
                blocked_by=failures.kind(Failure(self.blocked_by, self.blocked)),
                children=self.started_children,
                patches=self.patches,
            )
        stuck = self.poisoned
        # A workflow that was blocked and was offered to this version of the code has had its try.
        still_blocked = workflow.blocked_reason if stuck else ""
        return Progress(
            id=workflow.id,
            status=workflow.status,
            last_seq=self.last_seq,
            wake_at=workflow.wake_at if stuck else self._wake_at(),
            timers=self.execution.pending_timers() if self.execution is not None else (),
            poison_turns=workflow.poison_turns if stuck else 0,
            blocked_reason=still_blocked,
            blocked_version=registry.version() if still_blocked else "",
            blocked_at=workflow.blocked_at if still_blocked else None,
            deadline_at=None if still_blocked else self.deadline_at,
            children=self.started_children,
            patches=self.patches,
        )

    @property
    def started_children(self) -> int:
        """How many children it has started in this turn."""
        return len(self.children) - self.refused_children

    def _ends_at(self) -> datetime | None:
        """Its deadline, if it is in the future: a full history can still end by it."""
        deadline = self.deadline_at
        return deadline if deadline is not None and deadline > self.at else None

    def _wake_at(self) -> datetime | None:
        """The next wake-up: now, if it has to turn `again`; otherwise changed only if it becomes earlier, or has
        passed. A spurious wake-up only looks, and sets the right time; so 500 time limits that never fire are not 500
        changes of an index.
        """
        if self.again:
            return self.at
        timer = self.execution.next_timer() if self.execution is not None else None
        moments = [m for m in (timer.due if timer else None, self.deadline_at) if m is not None]
        wanted, current = min(moments, default=None), self.workflow.wake_at
        if current is not None and current > self.at and (wanted is None or current <= wanted):
            return current
        return wanted

    def _command(self, command: Command, at: datetime) -> None:
        match command:
            case ScheduleActivity():
                self._schedule(command, at)
            case CancelActivity(ordinal):
                self.cancelled.append(ordinal)
                self._record(EventType.ACTIVITY_CANCELLED, {}, at, ordinal)
            case StartChild():
                self._start(command, at)
            case CancelChild(ordinal, child, asks):
                if asks:
                    self.given_up.append(child)
                self._record(EventType.CHILD_CANCELLED, {"child": str(child)}, at, ordinal)
            case SendSignal():
                self.sent.append(command)
                self._record(EventType.SIGNAL_SENT, _sending(command), at, command.ordinal)
            case RecordUnreadable(seq, problem):
                marker = {"kind": UNREADABLE, "seq": seq, "problem": problem}
                self._record(EventType.MARKER_RECORDED, marker, at, None)
            case RecordPatch(id):
                self._record(EventType.MARKER_RECORDED, {"kind": PATCH, "id": id}, at, None)
            case CompleteWorkflow() | FailWorkflow() | CancelWorkflow():
                self.closing = self._closing(command)

    def _closing(self, end: Ending) -> Closing:
        match end:
            case CompleteWorkflow():
                data = {"result": end.payload, **_dropped(end)}
                return Closing(EventType.WORKFLOW_COMPLETED, WorkflowStatus.COMPLETED, data, result=end.payload)
            case FailWorkflow():
                failure = failures.stored(end.failure, self.workflow.id, None)
                data = {**_caused(end), "failure": failure.data, **_dropped(end)}
                return Closing(EventType.WORKFLOW_FAILED, WorkflowStatus.FAILED, data, failure=failure, error=end.error)
            case CancelWorkflow():
                data = {"reason": end.reason, **_dropped(end)}
                return Closing(EventType.WORKFLOW_CANCELLED, WorkflowStatus.CANCELLED, data)

    @property
    def trace(self) -> Mapping[str, str] | None:
        """What its rows and children go on with."""
        return None if self.traced is None else self.traced.carrier

    def _with_trace(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return options if self.trace is None else {**options, TRACE: self.trace}

    def _record(self, type: EventType, data: Mapping[str, Any], at: datetime, ordinal: int | None) -> None:
        self.events.append(Event(seq=self.last_seq + 1, type=type, data=data, recorded_at=at, ordinal=ordinal))

    def _start(self, command: StartChild, at: datetime) -> None:
        data = {"child": str(command.child), "type": command.type, "digest": command.digest}
        if command.key is not None:
            data["key"] = command.key
        data["parent_close"] = command.parent_close
        self._record(EventType.CHILD_STARTED, data, at, command.ordinal)
        definition = registry.workflow(command.type)
        chosen = command.options
        self.children.append(
            new_workflow(
                id=command.child,
                type=command.type,
                payload=command.payload,
                key=command.key,
                queue=chosen.get("queue") or definition.queue,
                priority=chosen.get("priority", self.workflow.priority),
                timeout=chosen.get("timeout") or definition.timeout,
                start_at=chosen.get("start_at"),
                trace=self.trace,
                call=ParentCall(self.workflow.id, self.workflow.run, command.ordinal, command.parent_close),
            )
        )

    def _schedule(self, command: ScheduleActivity, at: datetime) -> None:
        data = {"activity": command.activity, "digest": command.digest}
        self._record(EventType.ACTIVITY_SCHEDULED, data, at, command.ordinal)
        terms = None if command.options else self.terms.get(command.activity)
        if terms is None:
            terms = resolve(command.options, registry.activity(command.activity), settings)
            if not command.options:
                self.terms[command.activity] = terms
        self.rows.append(
            NewRow(
                workflow_id=self.workflow.id,
                run=self.workflow.run,
                ordinal=command.ordinal,
                activity=command.activity,
                payload=command.payload,
                queue=terms.queue,
                priority=self.workflow.priority if terms.priority is None else terms.priority,
                options=self._with_trace(terms.options),
                attempt_budget=terms.attempt_budget,
                delivery_budget=terms.delivery_budget,
            )
        )


_AMENDED = frozenset({EventType.CHILD_STARTED, EventType.SIGNAL_SENT})


def _sending(command: SendSignal) -> dict[str, Any]:
    data: dict[str, Any] = {"type": command.type, "key": command.key} if command.to is None else {"to": str(command.to)}
    if command.name is None:
        return {**data, "cancel": True}
    return {**data, "name": command.name, "digest": command.digest}


def _caused(command: FailWorkflow) -> dict[str, Any]:
    """First in the event's data: it is read from there without reading the rest."""
    return {"cause": list(command.cause)} if command.cause else {}


def _dropped(command: CompleteWorkflow | FailWorkflow | CancelWorkflow) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if command.dropped_tasks:
        data["dropped_tasks"] = command.dropped_tasks
    if command.dropped_commands:
        data["dropped_commands"] = list(command.dropped_commands)
    return data
