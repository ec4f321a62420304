"""What redrive and discard share: one operator's change of a dead letter, tried until its outcome is known.

No `atomic` in here. All gates and the write happen in one transaction under the workflow's row lock. Whoever appends an
event, the recorded outcome of an activity included, or makes a dead letter takes it too: nothing can change between the
check and the write. No work item is locked, since a dead letter has none.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.errors import AlreadyDone, RowNotFound
from durable.flow.audit import actors, auditing
from durable.flow.operator import gates
from durable.flow.transactions.commits import Commit
from durable.kernel.history.events import Event, EventType
from durable.outcomes import Discarded, Redriven, StaffVerb
from durable.store.operators import redrives, staff_actions
from durable.store.operators.redrives import Facts
from durable.store.runs import history, workflows
from durable.store.runs.workflows import LockedWorkflow

A = TypeVar("A", Redriven, Discarded)


class Change(ABC, Generic[A]):
    """One change of one dead letter. The id of its audit row is chosen before the first try.

    Changes under one `request` (a submitted form, a batch of a job) change a row once, however often they come: the
    audit row's id is derived from the request's, so that the second one finds it under the lock.
    """

    def __init__(
        self,
        workflow_id: uuid.UUID,
        ordinal: int,
        *,
        run: int | None,
        actor: Any,
        reason: str,
        request: uuid.UUID | None,
        answer: Callable[..., A],
    ) -> None:
        self.workflow_id = workflow_id
        self.run = run
        self.ordinal = ordinal
        self.reason = reason
        self.actor = actor
        _, self.actor_text = actors.identify(actor)
        self.request = request
        self.audit_id = uuid.uuid4() if request is None else uuid.uuid5(request, f"{workflow_id}:{run}:{ordinal}")
        self._answer: Callable[..., A] = answer
        self.commit: Commit[A] = Commit(self._made)

    @abstractmethod
    def change(self, connection: BaseDatabaseWrapper, workflow: LockedWorkflow, facts: Facts) -> tuple[int, bool]:
        """Checks the gates after those of the workflow and writes; returns the row's id and whether it was judged.

        `facts` are without the row, which is not locked yet. Raises the refusals.
        """

    def body(self, connection: BaseDatabaseWrapper) -> A:
        """Everything that commits together: the first gate, the change, the audit, the marker."""
        workflow = workflows.lock(connection, [self.workflow_id]).get(self.workflow_id)
        if self.request is not None:
            done = staff_actions.recorded(connection, self.audit_id)
            if done is not None:
                raise AlreadyDone(self.workflow_id, self.ordinal, redrives.row(connection, done[0]).status.value)
        if workflow is None:
            raise RowNotFound(self.workflow_id, self.ordinal)
        facts = Facts(self.workflow_id, self.ordinal, self.run, workflow.status, workflow.run)
        if (refusal := gates.of_workflow(facts)) is not None:
            raise refusal
        recorded = history.records_outcome(connection, self.workflow_id, since=workflow.run_seq, ordinal=self.ordinal)
        row_id, was_judged = self.change(connection, workflow, replace(facts, outcomes=recorded))
        return self._answer(redrives.row(connection, row_id), was_judged)

    def record(
        self, connection: BaseDatabaseWrapper, row_id: int, *, verb: StaffVerb, mode: str, was_judged: bool
    ) -> None:
        """Appends the audit row."""
        made = auditing.audit(
            verb,
            self.workflow_id,
            actor=self.actor,
            id=self.audit_id,
            ordinal=self.ordinal,
            row_id=row_id,
            mode=mode,
            reason=self.reason,
            was_judged=was_judged,
            request=self.request,
        )
        auditing.record(connection, made)

    def marker(self, connection: BaseDatabaseWrapper, workflow: LockedWorkflow, type: EventType, **data: Any) -> Event:
        """The event that records the change, after the workflow's last one."""
        return Event(
            seq=workflow.last_seq + 1,
            type=type,
            data={"actor": self.actor_text, "reason": self.reason, **data},
            recorded_at=clock.database_now(connection),
            ordinal=self.ordinal,
        )

    def _made(self, connection: BaseDatabaseWrapper) -> A | None:
        """What a try with an unknown commit has made.

        Under the workflow's lock, since a server that has lost its client may still be committing.
        """
        workflows.lock(connection, [self.workflow_id])
        audit = staff_actions.recorded(connection, self.audit_id)
        return None if audit is None else self._answer(redrives.row(connection, audit[0]), audit[1])
