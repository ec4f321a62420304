"""What the end of a workflow means for its parent and its children. No `atomic` in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.kernel.definitions.options import DETACHED
from durable.kernel.payloads import wire
from durable.outcomes import WorkflowStatus
from durable.store.runs import family
from durable.store.runs.family import ChildEnd
from durable.store.runs.workflows import LockedWorkflow
from durable.store.texts.failures import StoredFailure


@dataclass(frozen=True, slots=True)
class Ended:
    """A workflow that has just ended, and how. `started`: how many children it has started in the same transaction."""

    workflow: LockedWorkflow
    status: WorkflowStatus
    result: str | None = field(default=None, repr=False)
    failure: StoredFailure | None = None
    reason: str = ""
    started: int = 0


def tell(connection: BaseDatabaseWrapper, ended: Sequence[Ended]) -> None:
    """Tells the live parents of these workflows how they ended, and their live children, by each one's `parent_close`,
    to cancel or to end. At most two statements, none for workflows without a parent and children. Call it when the ends
    are written: children that were started before, in the same transaction, are among those that are told.
    """
    family.tell_parents(connection, [news for end in ended if (news := _for_parent(end)) is not None])
    family.ask_children(
        connection, [(end.workflow.id, _for_children(end)) for end in ended if end.workflow.children + end.started]
    )


def _for_parent(ended: Ended) -> ChildEnd | None:
    workflow = ended.workflow
    if workflow.parent_id is None or workflow.parent_close == DETACHED:
        return None
    data: dict[str, Any] = {"child": str(workflow.id), "status": ended.status.value}
    if ended.status is WorkflowStatus.COMPLETED:
        data["result"] = ended.result
    elif ended.failure is not None:
        data["failure"] = ended.failure.data
    elif ended.reason:
        data["reason"] = ended.reason
    return ChildEnd(workflow.parent_id, workflow.parent_run or 1, workflow.parent_ordinal or 0, wire.dump(data))


def _for_children(ended: Ended) -> str:
    words = ended.status.value.replace("_", " ")
    return wire.dump(
        {"reason": f"Its parent {ended.workflow.id} has ended ({words}).", "parent": str(ended.workflow.id)}
    )
