"""What turns ask of other workflows: children are started, signals and requests to cancel are sent.

A constant number of statements for a batch, and no lock on a workflow that is not turned. They come before the events
of the batch, which record what became of them. No `atomic` in here.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.flow.transactions import reporting
from durable.flow.turns.plan import Plan
from durable.kernel.history.commands import SendSignal
from durable.kernel.history.events import MessageKind
from durable.kernel.payloads import birthplace, wire
from durable.kernel.replay.feeding_children import REFUSED
from durable.outcomes import Started
from durable.store.runs import sending, starts, workflows
from durable.store.runs.messages import Limits, NewMessage
from durable.store.runs.sending import NOT_FOUND, Refusal, Sent
from durable.store.runs.starts import NewWorkflow

_TRIES: Final = 3


def start_children(connection: BaseDatabaseWrapper, plans: Sequence[Plan]) -> None:
    """Inserts the children of some (locked) workflows' turns. One whose key is taken is recorded as refused, and its
    parent gets a message.
    """
    new = [child for plan in plans for child in plan.children]
    if not new:
        return
    refused = _insert(connection, new)
    started = [child for child in new if child.id not in refused]
    reporting.started(started, [Started(child.id) for child in started])
    for plan in plans:
        for child in plan.children:
            if child.id in refused:
                _refuse(plan, child, refused[child.id])


def _insert(connection: BaseDatabaseWrapper, new: Sequence[NewWorkflow]) -> dict[uuid.UUID, uuid.UUID | None]:
    """Returns the holders of the keys of those that were refused. A holder that ends between the insert and the look
    is none: then it is tried again. If keys change hands again and again, the holder stays unknown.
    """
    refused: dict[uuid.UUID, uuid.UUID | None] = {}
    waiting = list(new)
    for _ in range(_TRIES):
        inserted = starts.insert_children(connection, waiting)
        waiting = [child for child in waiting if child.id not in inserted]
        if not waiting:
            return refused
        keys = [(child.type, child.key) for child in waiting if child.key is not None]
        holders = workflows.holders_of_keys(connection, list(dict.fromkeys(keys)))
        for child in waiting:
            refused[child.id] = holders.get((child.type, child.key or ""))
        waiting = [child for child in waiting if refused[child.id] is None]
        if not waiting:
            return refused
        for child in waiting:
            del refused[child.id]
    return {**refused, **dict.fromkeys((child.id for child in waiting), None)}


def _refuse(plan: Plan, child: NewWorkflow, holder: uuid.UUID | None) -> None:
    assert child.call is not None
    known = {} if holder is None else {"holder": str(holder)}
    plan.refused_children += 1
    plan.amend(child.call.ordinal, refused=known)
    _tell(plan, child.call.ordinal, {"child": str(child.id), "status": REFUSED, **known})


def send(connection: BaseDatabaseWrapper, plans: Sequence[Plan]) -> None:
    """Sends the signals and requests to cancel of some turns. What was refused is recorded, and told to a workflow that
    awaits it.
    """
    asked = [(plan, command) for plan in plans for command in plan.sent]
    given_up = [child for plan in plans for child in plan.given_up]
    if not asked and not given_up:
        return
    holders = sending.holders(connection, [(c.type, c.key) for _, c in asked if c.to is None])
    targets = [command.to or holders.get((command.type, command.key)) for _, command in asked]
    sent = [_sent(target, command) for target, (_, command) in zip(targets, asked, strict=True) if target is not None]
    sent += [Sent(child, MessageKind.CANCEL, wire.dump({"reason": _GIVEN_UP})) for child in given_up]
    refusals = sending.send(connection, sent, within=_limits())
    for target, (plan, command) in zip(targets, asked, strict=True):
        refusal = Refusal(NOT_FOUND) if target is None else refusals.get((target, _kind(command)))
        _record(plan, command, refusal)


_GIVEN_UP: Final = "Its parent no longer waits for it."


def _sent(target: uuid.UUID, command: SendSignal) -> Sent:
    if command.name is None:
        return Sent(target, MessageKind.CANCEL, wire.dump({"reason": wire.load(command.payload)}))
    born = birthplace.signal(target, command.name)
    payload = settings.codec().seal(command.payload, path="payload", birthplace=born)
    return Sent(target, MessageKind.SIGNAL, wire.dump({"name": command.name, "payload": payload}))


def _record(plan: Plan, command: SendSignal, refusal: Refusal | None) -> None:
    answer: dict[str, Any] = {}
    if refusal is not None:
        answer["refused"] = refusal.refused
        if refusal.status:
            answer["status"] = refusal.status
        plan.amend(command.ordinal, **answer)
    if command.awaited:
        _tell(plan, command.ordinal, answer)


def _tell(plan: Plan, ordinal: int, payload: Mapping[str, Any]) -> None:
    """A message to the workflow itself, unless it has just ended."""
    if plan.closing is None:
        plan.answers.append(
            NewMessage(plan.workflow.id, plan.workflow.run, MessageKind.CHILD, wire.dump(payload), ordinal)
        )


def _kind(command: SendSignal) -> MessageKind:
    return MessageKind.CANCEL if command.name is None else MessageKind.SIGNAL


def _limits() -> Limits:
    room = settings.room
    return Limits(
        signals=settings.max_unread_signals,
        size=settings.max_unread_bytes,
        history_events=room.signal_events,
        history_bytes=room.signal_bytes,
    )
