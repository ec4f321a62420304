"""Drives the flow by hand, verb by verb, on the calling thread's connection: what a worker does, without one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from durable.conf import settings
from durable.flow.caller import enqueue, start
from durable.flow.delivery import acknowledge, claim
from durable.flow.turns import turn
from durable.kernel.codec import encode_call
from durable.kernel.replay.cache import Cache
from durable.models import Event, OutboxRow, Workflow, WorkItem
from durable.outcomes import AckOutcome, Cause, Claim, Company, Completed, Ending, Failed, Failure, Started, TurnReport

LEASE = timedelta(minutes=1)
STARTED_AT = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Driver:
    """One worker's hands; with `cached=0` it turns every workflow from cold, in company it is one of several."""

    def __init__(self, *, name: str = "driver", cached: int = 1000, company: Company = Company.ALONE) -> None:
        self.name = name
        self.company = company
        self.cache = Cache(cached)
        self.noted: list[uuid.UUID | None] = []

    def start(self, definition: Any, *args: Any, **values: Any) -> uuid.UUID:
        """Start a workflow of a registered definition."""
        workflow_id = uuid.uuid4()
        new = start.new_workflow(
            id=workflow_id, type=definition.name, payload=_payload(workflow_id, definition, args), **values
        )
        assert start.start([new]) == [Started(workflow_id)]
        return workflow_id

    def enqueue(
        self, definition: Any, *args: Any, budget: int | None = 5, deliveries: int = 8, **values: Any
    ) -> uuid.UUID:
        """Enqueue a single activity."""
        workflow_id = uuid.uuid4()
        new = enqueue.new_activity(
            id=workflow_id,
            activity=definition.name,
            payload=_payload(workflow_id, definition, args),
            attempt_budget=budget,
            delivery_budget=deliveries,
            **values,
        )
        assert enqueue.enqueue([new]) == [Started(workflow_id)]
        return workflow_id

    def turn(self, limit: int = 50, *, idle: int | None = None) -> TurnReport:
        """One batch of turns."""
        note = self.noted.append
        return turn.turn(cache=self.cache, queues=None, limit=limit, note=note, company=self.company, idle=idle)

    def claim(self, limit: int = 50, lease_for: timedelta = LEASE) -> list[Claim]:
        """Claim what is due."""
        return claim.claim(worker=self.name, limit=limit, queues=None, lease_for=lease_for)

    def claim_one(self) -> Claim:
        """Claim the one row that is due."""
        (only,) = self.claim()
        return only

    def complete(self, *claims: Claim, payload: str = "null") -> list[AckOutcome]:
        """Acknowledge deliveries as successes."""
        return acknowledge.acknowledge([Completed(c, payload) for c in claims])

    def run(self, handler: Callable[[Claim], str | Ending] | None = None, rounds: int = 200) -> None:
        """Turn and work until nothing is due now. Unless told otherwise, activities answer their argument `n`."""
        handler = handler or _echo
        for _ in range(rounds):
            report = self.turn()
            claims = self.claim()
            if claims:
                acknowledge.acknowledge([_ending(c, handler(c)) for c in claims])
            elif not report.workflows:
                return
        raise AssertionError(f"Still at work after {rounds} rounds.")


def _echo(c: Claim) -> str:
    return str(json.loads(c.payload)["n"])


def _payload(workflow_id: uuid.UUID, definition: Any, args: tuple[Any, ...]) -> str:
    return encode_call(definition, args, {}, codec=settings.codec(), workflow_id=workflow_id).payload


def _ending(c: Claim, answer: str | Ending) -> Ending:
    return Completed(c, answer) if isinstance(answer, str) else answer


def failed(c: Claim, message: str = "no") -> Failed:
    """An ending: the handler failed for good."""
    return Failed(c, Failure("ValueError", message), Cause.APPLICATION_ERROR, datetime.now(UTC))


def workflow(workflow_id: uuid.UUID) -> Workflow:
    """A workflow's row."""
    return Workflow.objects.get(id=workflow_id)


def history(workflow_id: uuid.UUID) -> list[str]:
    """The types of a workflow's events, in order; activities with their ordinal."""
    events = Event.objects.filter(workflow_id=workflow_id).order_by("seq")
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    return [e.type if e.ordinal is None else f"{e.type} {e.ordinal}" for e in events]


def rows(workflow_id: uuid.UUID) -> list[OutboxRow]:
    """A workflow's outbox rows, by ordinal."""
    return list(OutboxRow.objects.filter(workflow_id=workflow_id).order_by("run", "ordinal"))


def row(workflow_id: uuid.UUID, ordinal: int = 1) -> OutboxRow:
    """One outbox row."""
    return OutboxRow.objects.get(workflow_id=workflow_id, ordinal=ordinal)


def items() -> list[WorkItem]:
    """All work items."""
    return list(WorkItem.objects.order_by("outbox_row_id"))
