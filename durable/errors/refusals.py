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
    """The caller is inside a transaction of its own, so that nothing could be promised: its rollback would undo the
    change. Raised before anything is read, by every verb that commits by itself (pause, resume, unblock and terminate
    too). Call it outside of `atomic` blocks, or in `transaction.on_commit`.
    """

    code = "transaction_open"

    def __init__(self) -> None:
        super().__init__(
            "This needs a database transaction of its own, and the caller is inside one already; nothing was changed. "
            "Call it outside of `transaction.atomic()`, or from `transaction.on_commit(...)`."
        )


class WorkflowTerminal(RedriveRefused):
    """The owning workflow has ended: nobody could use the result. Never overridable."""

    code = "workflow_terminal"

    def __init__(self, workflow_id: Any, status: str) -> None:
        self.workflow_id = workflow_id
        self.status = status
        super().__init__(
            f"This workflow is already {status.replace('_', ' ')}, so nothing waits for the activity any more.",
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
            "The workflow has already recorded how this activity ended and has acted on it.",
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
    """The row is not a dead letter (any more)."""

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
            "The workflow has already been told that this activity failed.",
            workflow_id=workflow_id,
            ordinal=ordinal,
        )


class AlreadyDone(NotDeadLettered):
    """The same request (a form that was sent twice) has moved this dead letter before. It was not done again, whatever
    has become of the row meanwhile.
    """

    code = "already_done"

    def __init__(self, workflow_id: Any, ordinal: int, status: str) -> None:
        super().__init__(workflow_id, ordinal, status)
        self.args = ("The same request has already done this; it was not done a second time.",)


class RowUnreadable(RedriveRefused):
    """What the call chose for this activity (its retry policy, its limits) is stored in a form that nobody can read: a
    worker could not run it either. It can be discarded.
    """

    code = "row_unreadable"

    def __init__(self, workflow_id: Any, ordinal: int, fault: str) -> None:
        self.workflow_id = workflow_id
        self.ordinal = ordinal
        self.fault = fault
        super().__init__(
            f"What is stored with activity {ordinal} can not be read ({fault}), so no worker could run it.",
            workflow_id=workflow_id,
            ordinal=ordinal,
            fault=fault,
        )


class StoreUnavailable(RedriveRefused):
    """The database did not answer. `outcome_unknown` says whether something may have been written, `locked` whether it
    was only somebody else's lock that did not come in time: then the same call may succeed in a moment. Pause, resume,
    unblock, terminate and cancel raise it for a lock, too.
    """

    code = "store_unavailable"

    def __init__(self, cause: BaseException, *, outcome_unknown: bool, locked: bool = False) -> None:
        self.cause = cause
        self.outcome_unknown = outcome_unknown
        self.locked = locked
        consequence = (
            "it is not known whether the change was made; look before you try again"
            if outcome_unknown
            else "nothing was changed"
        )
        if locked and not outcome_unknown:
            text = (
                "Somebody else has locked this in a transaction of their own that is still open, so nothing was "
                "changed. Try again in a moment; if it stays so, end that transaction (pg_stat_activity shows it)."
            )
        else:
            text = f"The database did not carry this out: {consequence}."
        super().__init__(text, cause=str(cause), outcome_unknown=outcome_unknown, locked=locked)
