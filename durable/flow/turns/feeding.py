"""Feeds what is due to a workflow's code: messages and timers in the order of their times, one activation each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

from durable.errors import CodeRaised, HistoryFull, PoisonTurn, WorkflowBlocked
from durable.errors.showing import is_a
from durable.flow.transactions import reporting
from durable.flow.turns import feeding_children
from durable.flow.turns.keeping import is_full
from durable.flow.turns.plan import Closing, Plan
from durable.kernel.definitions.registry import registry
from durable.kernel.history.events import Event, EventType, MessageKind
from durable.kernel.history.room import Room
from durable.kernel.payloads import wire
from durable.kernel.replay.execution import Awaits, Execution
from durable.kernel.texts.failure import type_name
from durable.kernel.texts.tracebacks import around
from durable.logs import get_logger
from durable.outcomes import WorkflowStatus
from durable.store.runs.inbox import DueMessage, Inbox
from durable.store.texts import failures

logger = get_logger("durable.flow")

_EVENT_OF = {
    MessageKind.COMPLETED: EventType.ACTIVITY_COMPLETED,
    MessageKind.FAILED: EventType.ACTIVITY_FAILED,
    MessageKind.SIGNAL: EventType.SIGNAL_RECEIVED,
    MessageKind.CANCEL: EventType.CANCEL_REQUESTED,
}


def feed(
    plan: Plan,
    execution: Execution,
    due: Inbox,
    *,
    started: Event | None,
    room: Room,
    has_time: Callable[[], bool],
) -> None:
    """Feeds everything read that is due at `plan.at`, until the workflow ends, the time is up, or the code cannot
    continue.

    Each activation is planned when it has succeeded; an event that blocks the code, or in which it overran, stays due.
    `started` is the workflow's first event, if its message has not been consumed yet. A history without room for
    signals takes everything else; one that is full takes a request to cancel, and ends when its time is up.
    """
    plan.execution = execution
    plan.keep_answers(execution)
    waiting = deque(sorted(due.messages, key=_cancel_first if is_full(plan.workflow) else _start_first))
    try:
        while plan.closing is None:
            events, size = plan.history_events, plan.history_bytes
            if not plan.full and not room.accepts_signals(events, size):
                plan.full = True
                waiting = deque([message for message in waiting if message.kind is not MessageKind.SIGNAL])
            if room.goes_on(events, size, cancelling=execution.cancel_requested):
                if not waiting and due.more:
                    plan.again = plan.full
                    break
                event, message = _next(plan, execution, waiting, started)
            else:
                event, message = _last(plan, execution, waiting, started)
                if event is None and plan.closing is None:
                    raise HistoryFull(room.words(events, size))
            if event is not None:
                plan.add(event, execution.activate(event).commands)
                execution.last_seq = plan.last_seq
                plan.keep_answers(execution)
            if message is not None:
                waiting.remove(message)
                plan.added += len(message.payload)
                plan.consumed.append(message.id)
            elif event is None:
                _must_wait_for_something(plan, execution, room)
                break
            if plan.closing is None and not has_time():
                plan.again = plan.full
                break
    except WorkflowBlocked as error:
        block(plan, error)
    except PoisonTurn as error:
        plan.poisoned = True
        plan.execution = None
        logger.warning("workflow.turn_overran", workflow=str(plan.workflow.id), seconds=error.seconds)


def _start_first(message: DueMessage) -> bool:
    return message.kind is not MessageKind.START


def _cancel_first(message: DueMessage) -> bool:
    """Messages that filled the history must not keep a full one from ending."""
    return message.kind is not MessageKind.CANCEL


def _last(
    plan: Plan, execution: Execution, waiting: deque[DueMessage], started: Event | None
) -> tuple[Event | None, DueMessage | None]:
    """What a full history still takes: the end of its time, or a request to cancel."""
    deadline = plan.deadline_at
    if deadline is not None and deadline <= plan.at:
        plan.closing = Closing(EventType.WORKFLOW_TIMED_OUT, WorkflowStatus.TIMED_OUT, {})
        return None, None
    request = next((message for message in waiting if message.kind is MessageKind.CANCEL), None)
    if request is None or execution.cancel_requested:
        return None, None
    return _event(plan, execution, request, started), request


def _must_wait_for_something(plan: Plan, execution: Execution, room: Room) -> None:
    """Blocks a workflow that only a signal could move forward, if its history takes none, so that staff see it."""
    if (
        plan.full
        and plan.closing is None
        and not execution.cancel_requested
        and not execution.awaits_calls
        and execution.next_timer() is None
        and plan.deadline_at is None
    ):
        raise HistoryFull(room.words_for_signals(plan.history_events, plan.history_bytes))


def await_start(plan: Plan, start: DueMessage, due: Sequence[DueMessage]) -> None:
    """Plans only the wait for a workflow that starts later: early messages wait for its start. A request to cancel does
    not wait: the workflow ends without its code having run.
    """
    for message in due:
        if message.kind is MessageKind.CANCEL and message is not start:
            data = {**wire.load(message.payload), "terminated": True}
            plan.consumed.append(message.id)
            plan.closing = Closing(EventType.WORKFLOW_CANCELLED, WorkflowStatus.CANCELLED, data)
            return
    plan.later = {message.id: start.due for message in due if message is not start}


def block(plan: Plan, error: WorkflowBlocked) -> None:
    """Plans the block. What the same workflow did earlier in this turn stays planned."""
    plan.execution = None
    plan.blocked, plan.blocked_by = error.reason, type_name(type(error))
    plan.out_of_memory = any(is_a(part, MemoryError) for part in around(error))
    if isinstance(error, CodeRaised):
        plan.raised, plan.blocked_by = error.error, error.type
    # Each version of the code with a bug is recorded: the traceback is of that version.
    if not plan.workflow.blocked_reason or plan.raised is not None:
        data = {"reason": error.reason, "version": registry.version(), **error.data}
        plan.append(EventType.WORKFLOW_BLOCKED, failures.block(data, plan.workflow.id))
    reporting.blocked(plan.workflow, error.reason, error.__cause__ or error)


def _next(
    plan: Plan, execution: Execution, waiting: deque[DueMessage], started: Event | None
) -> tuple[Event | None, DueMessage | None]:
    """What comes next in time: a message, a timer, or the deadline. At equal times, timers come before messages and the
    deadline comes last. A message that is only consumed has no event.
    """
    message = waiting[0] if waiting else None
    timer = execution.next_timer()
    timer_due = timer.due if timer is not None and timer.due <= plan.at else None
    message_due = message.due if message is not None else None
    deadline = plan.deadline_at
    if deadline is not None and deadline <= plan.at:
        earlier = [moment for moment in (timer_due, message_due) if moment is not None and moment <= deadline]
        if not earlier:
            plan.closing = Closing(EventType.WORKFLOW_TIMED_OUT, WorkflowStatus.TIMED_OUT, {})
            return None, None
    if timer is not None and timer_due is not None and (message_due is None or timer_due <= message_due):
        data = {"timer": list(timer.id)}
        return Event(plan.last_seq + 1, EventType.TIMER_FIRED, data, _moment(plan, execution, timer_due)), None
    if message is None:
        return None, None
    return _event(plan, execution, message, started), message


def _event(plan: Plan, execution: Execution, message: DueMessage, started: Event | None) -> Event | None:
    if message.kind is MessageKind.CHILD:
        return feeding_children.event(plan, execution, message, at=_moment(plan, execution, plan.at))
    if message.kind is MessageKind.START:
        assert started is not None
        return Event(started.seq, started.type, started.data, _moment(plan, execution, plan.at))
    if message.kind in (MessageKind.COMPLETED, MessageKind.FAILED):
        # A result belongs to the run that asked for it; a signal or a request to cancel to the workflow, whatever run
        # its sender saw.
        if message.run != plan.workflow.run:
            return None
        assert message.ordinal is not None
        if execution.awaits(message.ordinal) is not Awaits.OPEN:
            logger.info(
                "activity.result_dropped", workflow=str(plan.workflow.id), ordinal=message.ordinal, kind=message.kind
            )
            return None
    if message.kind is MessageKind.CANCEL and execution.cancel_requested:
        return None
    data = {"result": message.payload} if message.kind is MessageKind.COMPLETED else wire.load(message.payload)
    return Event(
        seq=plan.last_seq + 1,
        type=_EVENT_OF[message.kind],
        data=data,
        recorded_at=_moment(plan, execution, plan.at),
        ordinal=message.ordinal,
    )


def _moment(plan: Plan, execution: Execution, due: datetime) -> datetime:
    """Workflow time never goes backwards: the latest of the previous time, the database's time, and the timer's own
    time.
    """
    return max(plan.at, due, execution.now or plan.at)
