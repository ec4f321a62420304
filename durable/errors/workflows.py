"""Errors of workflows and of their activities: how they ended, or why they cannot continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from durable.errors.root import DurableError


class WorkflowNotFound(DurableError, LookupError):
    """No workflow has this id or key."""

    def __init__(self, workflow: Any) -> None:
        self.workflow = workflow
        super().__init__(f"There is no workflow {workflow}.")


class WorkflowClosed(DurableError):
    """The workflow has ended, and the verb needs a live one."""

    def __init__(self, workflow_id: Any, status: str, verb: str) -> None:
        self.workflow_id = workflow_id
        self.status = status
        self.verb = verb
        super().__init__(f"Workflow {workflow_id} is {status.replace('_', ' ')}; {verb} needs a live workflow.")


class MailboxFull(DurableError):
    """The workflow accepts no signals now: too many are waiting, or its history has no room for more. Nothing was sent.

    `signals` and `size` (bytes) are those that are waiting, counted up to the limits; 0 if a workflow has sent the
    signal.
    """

    def __init__(self, workflow_id: Any, *, signals: int = 0, size: int = 0, history_is_full: bool = False) -> None:
        self.workflow_id = workflow_id
        self.signals = signals
        self.size = size
        self.history_is_full = history_is_full
        why = (
            "its history has no room for more (MAX_HISTORY_EVENTS, MAX_HISTORY_BYTES)"
            if history_is_full
            else "too many signals wait to be read, or its history has no room for more"
            if not signals and not size
            else f"{signals:,} signals of {size:,} bytes are waiting to be read (MAX_UNREAD_SIGNALS, MAX_UNREAD_BYTES)"
        )
        super().__init__(f"Workflow {workflow_id} accepts no signals now: {why}. This one was not sent.")


class WorkflowNotBlocked(DurableError):
    """Unblock was called for a workflow that is not blocked."""

    def __init__(self, workflow_id: Any, status: str) -> None:
        self.workflow_id = workflow_id
        self.status = status
        super().__init__(f"Workflow {workflow_id} is not blocked (it is {status}); there is nothing to unblock.")


class SignalUnreadable(DurableError):
    """Raised in workflow code: the signal does not match the type asked for. The signal counts as taken.

    Every replay raises it again, even if the type has changed so that it would match. `problem` names path and type.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(f"The signal {name!r} cannot be read: {problem}")


class ResultError(DurableError):
    """The workflow ended without a result."""

    def __init__(self, workflow_id: Any, text: str) -> None:
        self.workflow_id = workflow_id
        super().__init__(text)


class WorkflowFailed(ResultError):
    """The workflow's code raised. `type`, `message` and `traceback` are those of the original error, as text."""

    def __init__(self, workflow_id: Any, *, type: str, message: str, traceback: str) -> None:
        self.type = type
        self.message = message
        self.traceback = traceback
        super().__init__(workflow_id, f"Workflow {workflow_id} failed with {type}: {message}")


class WorkflowCancelled(ResultError):
    """The workflow was cancelled or terminated."""

    def __init__(self, workflow_id: Any, *, reason: str) -> None:
        self.reason = reason
        super().__init__(workflow_id, f"Workflow {workflow_id} was cancelled{': ' + reason if reason else ''}.")


class WorkflowTimedOut(ResultError):
    """The workflow did not end within its `timeout`."""

    def __init__(self, workflow_id: Any) -> None:
        super().__init__(workflow_id, f"Workflow {workflow_id} timed out.")


class ActivityError(DurableError):
    """An activity failed for good. Raised where the workflow awaits it.

    `type`, `message` and `traceback` are those of the last attempt, as text; `attempts` counts the attempts made.
    """

    def __init__(
        self, *, activity: str, ordinal: int, type: str, message: str, traceback: str = "", attempts: int = 0
    ) -> None:
        self.activity = activity
        self.ordinal = ordinal
        self.type = type
        self.message = message
        self.traceback = traceback
        self.attempts = attempts
        super().__init__(f"{activity} failed with {type}: {message}")


class ChildError(DurableError):
    """A child workflow ended without a result. Raised where its parent awaits it.

    `id`, `workflow_type` and `key` are the child's; `ordinal` is the number of the call in its parent.
    """

    def __init__(self, text: str, *, id: Any, workflow_type: str, key: str | None, ordinal: int) -> None:
        self.id = id
        self.workflow_type = workflow_type
        self.key = key
        self.ordinal = ordinal
        super().__init__(f"The child workflow {workflow_type} {id} {text}")


class ChildFailed(ChildError):
    """The child's code raised. `type`, `message` and `traceback` are those of the original error, as text."""

    def __init__(self, *, type: str, message: str, traceback: str = "", **child: Any) -> None:
        self.type = type
        self.message = message
        self.traceback = traceback
        super().__init__(f"failed with {type}: {message}", **child)


class ChildCancelled(ChildError):
    """The child was cancelled or terminated. It is no `CancelledError`, which would be the parent's own."""

    def __init__(self, *, reason: str = "", **child: Any) -> None:
        self.reason = reason
        super().__init__(f"was cancelled{': ' + reason if reason else '.'}", **child)


class ChildTimedOut(ChildError):
    """The child did not end within its `timeout`."""

    def __init__(self, **child: Any) -> None:
        super().__init__("timed out.", **child)


class WorkflowBlocked(DurableError):
    """The workflow cannot continue with the deployed code. It is blocked, not failed: a deploy may cure it.

    `data` is what staff are shown, as plain JSON.
    """

    def __init__(self, reason: str, data: dict[str, Any] | None = None) -> None:
        self.reason = reason
        self.data: dict[str, Any] = data or {}
        super().__init__(reason)


class NonDeterminism(WorkflowBlocked):
    """The code asks for something else than its history records.

    `position` is the `seq` of the event in question; `recorded` and `asked` say, in words, what the history records
    there and what the deployed code does instead. `patches` are those whose old way the workflow has taken, and for
    which the deployed code no longer asks.
    """

    def __init__(self, *, position: int, recorded: str, asked: str, patches: Sequence[str] = ()) -> None:
        self.position = position
        self.recorded = recorded
        self.asked = asked
        self.patches = tuple(patches)
        text = f"Event {position}: the history records {recorded}, the code asks for {asked}."
        data = {"position": position, "recorded": recorded, "asked": asked}
        if patches:
            names = ", ".join(map(repr, patches))
            text += f" It took the old way of {names}, for which the code no longer asks: bring the old way back."
            data["patches"] = list(patches)
        super().__init__(text, data)

    def naming(self, patches: Sequence[str]) -> NonDeterminism:
        """The same, with the patches that explain it."""
        return NonDeterminism(position=self.position, recorded=self.recorded, asked=self.asked, patches=patches)


class NewerEngine(WorkflowBlocked):
    """An event or a message was written by a newer version of durable, which this one does not know.

    Update this process. Workers put such a workflow off, and block it after `UNKNOWN_HANDLER_FOR`.
    """


class CodeRaised(WorkflowBlocked):
    """The workflow's code raised an error that counts as a bug in it (`blocks_on`). Deploy a repaired version.

    `type`, `message` and `traceback` are those of the error, as text; `error` is the error itself.
    """

    def __init__(self, failure: Any, error: BaseException) -> None:
        self.type: str = failure.type
        self.message: str = failure.message
        self.traceback: str = failure.traceback
        self.error = error
        said = f"{self.type}: {self.message}" if self.message else self.type
        super().__init__(f"The workflow's code raised {said}", {"error_type": self.type, "traceback": self.traceback})


class HistoryFull(WorkflowBlocked):
    """The history has reached its limit. Raise the limits, or cancel the workflow: there is always room for that."""


class StackExhausted(WorkflowBlocked):
    """Workflow code ran into the recursion limit, which depends on the machine and must not become history."""

    def __init__(self) -> None:
        super().__init__("The workflow's code ran into Python's recursion limit.")


class PoisonTurn(DurableError):
    """A turn used more CPU time than `TURN_CPU_FOR` allows, or ended its process."""

    def __init__(self, workflow_id: Any, seconds: float) -> None:
        self.workflow_id = workflow_id
        self.seconds = seconds
        super().__init__(f"The code of workflow {workflow_id} ran for {seconds:.1f} s of CPU time in one activation.")


class TokenMissing(DurableError):
    """The work item is gone, or belongs to another worker: nothing was written."""

    def __init__(self, row_id: int) -> None:
        self.row_id = row_id
        super().__init__(f"The lock token of outbox row {row_id} is no longer valid; nothing was changed.")
