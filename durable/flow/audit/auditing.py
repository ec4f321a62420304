"""Who does what, and through what: what a verb of an operator's adds to the audit. No `atomic` in here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.audit import actors
from durable.flow.transactions.commits import Commit
from durable.outcomes import StaffVerb, Through, WorkflowState
from durable.store.operators import staff_actions
from durable.store.operators.staff_actions import Audit
from durable.store.runs import workflows


@dataclass(frozen=True, slots=True)
class _Asked:
    through: Through = Through.OPERATIONS
    job: uuid.UUID | None = None
    login: str = ""


_asked: ContextVar[_Asked] = ContextVar("durable_asked_through", default=_Asked())  # noqa: B039 - it is frozen


@contextmanager
def asked_through(through: Through, *, job: uuid.UUID | None = None, login: str = "") -> Iterator[None]:
    """What is done inside was asked for through this: `job` is the workflow that does it for somebody, `login` the
    account of the machine that a command ran under. Outside of it, `durable.operations` was called.
    """
    before = _asked.set(_Asked(through, job, login))
    try:
        yield
    finally:
        _asked.reset(before)


def audit(
    verb: StaffVerb,
    workflow_id: uuid.UUID,
    *,
    actor: Any,
    id: uuid.UUID | None = None,
    ordinal: int | None = None,
    row_id: int | None = None,
    mode: str = "",
    reason: str = "",
    was_judged: bool | None = None,
    request: uuid.UUID | None = None,
    data: Mapping[str, Any] | None = None,
) -> Audit:
    """An audit row, to be appended in the verb's transaction. Make it before the first try: its id is fixed then."""
    asked = _asked.get()
    actor_id, actor_text = actors.identify(actor)
    said = dict(data or {})
    if asked.login:
        said["login"] = asked.login
    return Audit(
        id=id or uuid.uuid4(),
        verb=verb,
        workflow_id=workflow_id,
        through=asked.through,
        actor_id=actor_id,
        actor_text=actor_text,
        ordinal=ordinal,
        row_id=row_id,
        mode=mode,
        reason=reason,
        was_judged=was_judged,
        request=request,
        job=asked.job,
        data=said,
    )


def record(connection: BaseDatabaseWrapper, made: Audit) -> None:
    """Appends it."""
    staff_actions.record(connection, made)


def commit(made: Audit, state: WorkflowState) -> Commit[WorkflowState]:
    """The commit of a verb that appends this audit row and leaves its workflow in this state."""

    def look(connection: BaseDatabaseWrapper) -> WorkflowState | None:
        workflows.lock(connection, [made.workflow_id])
        return None if staff_actions.recorded(connection, made.id) is None else state

    return Commit(look)
