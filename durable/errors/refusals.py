"""Refusals of redrive and discard: each with a stable code, its values, and one sentence for staff."""

from __future__ import annotations

from typing import Any, ClassVar

from durable.errors.root import DurableError


class RedriveRefused(DurableError):
    """An operator's verb was refused. `code` is stable; `values` are what it is about."""

    code: ClassVar[str] = "refused"

    def __init__(self, text: str, **values: Any) -> None:
        self.values = values
        super().__init__(text)


class TransactionOpen(RedriveRefused):
    """The caller is inside a transaction of its own, whose rollback would undo the change. Nothing was read or changed.

    Every verb that commits by itself raises it, pause, resume, unblock and terminate included. Call the verb outside of
    `atomic` blocks, or in `transaction.on_commit`.
    """

    code = "transaction_open"

    def __init__(self) -> None:
        super().__init__(
            "This needs a database transaction of its own, and the caller is already inside one; nothing was changed. "
            "Call it outside of `transaction.atomic()`, or from `transaction.on_commit(...)`."
        )


class WorkflowTerminal(RedriveRefused):
    """The owning workflow has ended: nobody could use the result. Never overridable."""

    code = "workflow_terminal"

    def __init__(self, workflow_id: Any, status: str) -> None:
        self.workflow_id = workflow_id
        self.status = status
        super().__init__(
            f"This workflow is already {status.replace('_', ' ')}, so nothing is waiting for the activity.",
            workflow_id=workflow_id,
            status=status,
        )


class HistoryRecordsOutcome(RedriveRefused):
    """The history already holds an outcome for this activity. Overridable by a forced redrive."""

    code = "history_records_outcome"

    def __init__(self, workflow_id: Any, activity_id: str, ordinal: int) -> None:
        self.workflow_id = workflow_id
        self.activity_id = activity_id
        self.ordinal = ordinal
        super().__init__(
            "The workflow has already recorded how this activity ended, and has moved on.",
            workflow_id=workflow_id,
            activity_id=activity_id,
            ordinal=ordinal,
        )


class RowNotFound(RedriveRefused):
    """The current run of the workflow has no such activity."""

    code = "row_not_found"

    def __init__(self, workflow_id: Any, ordinal: int) -> None:
        self.workflow_id = workflow_id
        self.ordinal = ordinal
        super().__init__(
            f"There is no activity {ordinal} in the current run of workflow {workflow_id}.",
            workflow_id=workflow_id,
            ordinal=ordinal,
        )


class NotDeadLettered(RedriveRefused):
    """The row is not a dead letter, or no longer one."""

    code = "not_dead_lettered"

    def __init__(self, workflow_id: Any, ordinal: int, status: str) -> None:
        self.workflow_id = workflow_id
        self.ordinal = ordinal
        self.status = status
        super().__init__(
            f"This activity is not a dead letter; it is {status}.",
            workflow_id=workflow_id,
            ordinal=ordinal,
            status=status,
        )


class AlreadyJudged(RedriveRefused):
    """The failure was delivered to the workflow. Overridable by a forced redrive."""

    code = "already_judged"

    def __init__(self, workflow_id: Any, ordinal: int) -> None:
        self.workflow_id = workflow_id
        self.ordinal = ordinal
        super().__init__(
            "The workflow has already got this activity's failure, and has moved on.",
            workflow_id=workflow_id,
            ordinal=ordinal,
        )


class AlreadyDone(NotDeadLettered):
    """The same request (a form that was submitted twice) has already moved this dead letter. It was not repeated,
    whatever has happened to the row since.
    """

    code = "already_done"

    def __init__(self, workflow_id: Any, ordinal: int, status: str) -> None:
        super().__init__(workflow_id, ordinal, status)
        self.args = ("The same request has already done this; it was not repeated.",)


class RowUnreadable(RedriveRefused):
    """The options stored with this activity (its retry policy, its limits) cannot be read, so no worker could run it.
    It can be discarded.
    """

    code = "row_unreadable"

    def __init__(self, workflow_id: Any, ordinal: int, fault: str) -> None:
        self.workflow_id = workflow_id
        self.ordinal = ordinal
        self.fault = fault
        super().__init__(
            f"The stored data of activity {ordinal} cannot be read ({fault}), so no worker could run it.",
            workflow_id=workflow_id,
            ordinal=ordinal,
            fault=fault,
        )


class StoreUnavailable(RedriveRefused):
    """The database did not carry out the verb. `outcome_unknown` says whether something may have been written.

    `locked` says that the only cause was another session's lock: the same call may succeed in a moment. Pause, resume,
    unblock, terminate and cancel raise it for a lock, too.
    """

    code = "store_unavailable"

    def __init__(self, cause: BaseException, *, outcome_unknown: bool, locked: bool = False) -> None:
        self.cause = cause
        self.outcome_unknown = outcome_unknown
        self.locked = locked
        consequence = (
            "the change may or may not have been made; check before you try again"
            if outcome_unknown
            else "nothing was changed"
        )
        if locked and not outcome_unknown:
            text = (
                "Another session has locked this in a transaction that is still open, so nothing was changed. Try "
                "again in a moment; if it stays locked, end that transaction (pg_stat_activity shows it)."
            )
        else:
            text = f"The database did not carry this out: {consequence}."
        super().__init__(text, cause=str(cause), outcome_unknown=outcome_unknown, locked=locked)
