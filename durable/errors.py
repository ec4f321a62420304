"""Everything that `durable` raises.

::

    DurableError
    ├── ConfigurationError             a setting or a registration is wrong
    │   ├── NotRegistered              no such workflow or activity in this process
    │   └── AlreadyRegistered          two functions claim one name
    ├── UsageError                     a call in a place where it can not work
    │   ├── OutsideWorkflow            a durable call made outside a workflow's own turn
    │   ├── OutsideActivity            a call that only a running activity can make
    │   ├── InsideWorkflow             a plain call made inside workflow code
    │   ├── InsideTransaction          waiting for a result that only a commit can bring
    │   ├── ArgumentsMismatch          arguments that do not fit the handler's signature
    │   └── OptionInvalid              an option of a call that can not be meant
    ├── PayloadError                   a value that JSON can not carry
    │   └── PayloadTooLarge
    ├── KeyInvalid                     a key, name or queue that is empty, too long or not text
    ├── KeyTaken                       a live workflow already holds the business key
    ├── WorkflowNotFound
    ├── WorkflowClosed                 the verb needs a live workflow
    ├── WorkflowNotBlocked             unblock on a workflow that is not blocked
    ├── ResultError                    what `result()` raises for a workflow that did not complete
    │   ├── WorkflowFailed
    │   ├── WorkflowCancelled
    │   └── WorkflowTimedOut
    ├── ActivityError                  raised in workflow code: the activity failed for good
    ├── WorkflowBlocked                the code can not go on behind this history
    │   ├── NonDeterminism
    │   └── StackExhausted
    ├── PoisonTurn                     a turn used more CPU time than it may
    ├── TokenMissing                   the delivery belongs to somebody else by now
    ├── TransactionLeftOpen            an activity ended inside a transaction that it had begun
    ├── RedriveRefused                 an operator's redrive or discard was refused
    │   ├── WorkflowTerminal           workflow_terminal
    │   ├── HistoryRecordsOutcome      history_records_outcome
    │   ├── RowNotFound                row_not_found
    │   ├── NotDeadLettered            not_dead_lettered
    │   ├── AlreadyJudged              already_judged
    │   └── StoreUnavailable           store_unavailable

Each class takes the values it is about and builds its own sentence; the values stay readable as attributes.
"""

from __future__ import annotations

from typing import Any, ClassVar


class DurableError(Exception):
    """Base of all errors of this package. Never raised itself."""


class ConfigurationError(DurableError):
    """A setting or a registration is wrong. The message names the value and the cure."""


class NotRegistered(ConfigurationError):
    """No workflow or activity of this name is registered in this process."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(
            f"No {kind} named {name!r} is registered in this process. Define it in a module called "
            "`workflows` or `activities` of an installed app, or import the module from AppConfig.ready()."
        )


class AlreadyRegistered(ConfigurationError):
    """Two functions claim one registered name."""

    def __init__(self, kind: str, name: str, first: str, second: str) -> None:
        self.kind = kind
        self.name = name
        self.first = first
        self.second = second
        super().__init__(
            f"The {kind} name {name!r} is claimed by {first} and by {second}. Give one of them another name with `name=`."
        )


class UsageError(DurableError):
    """A call in a place where it can not work."""


class OutsideWorkflow(UsageError):
    """A durable call was made outside the workflow's own turn."""

    def __init__(self, call: str, advice: str) -> None:
        self.call = call
        super().__init__(f"{call} works inside a running workflow only. {advice}")


class OutsideActivity(UsageError):
    """A call that only a running activity can make was made elsewhere."""

    def __init__(self, call: str) -> None:
        self.call = call
        super().__init__(
            f"{call} works inside a running activity only, in the thread or task that the worker started. "
            "A thread of your own gets what it needs as an argument."
        )


class InsideWorkflow(UsageError):
    """A call with effects was made inside workflow code, where it would run again at every replay."""

    def __init__(self, call: str, advice: str) -> None:
        self.call = call
        super().__init__(f"{call} can not be used inside workflow code. {advice}")


class InsideTransaction(UsageError):
    """A result was awaited inside an open transaction, which hides it until the commit."""

    def __init__(self, workflow_id: Any) -> None:
        self.workflow_id = workflow_id
        super().__init__(
            f"The result of workflow {workflow_id} can not arrive while this transaction is open: nothing of it is "
            "claimable before the commit. Leave the `atomic` block first."
        )


class ArgumentsMismatch(UsageError, TypeError):
    """The arguments do not fit the handler's signature."""

    def __init__(self, name: str, signature: str, problem: str) -> None:
        self.name = name
        self.signature = signature
        self.problem = problem
        super().__init__(f"{name}{signature} can not be called like this: {problem}.")


class OptionInvalid(UsageError, ValueError):
    """An option of a call, such as `priority` or `start_at`, has a value that can not be meant."""

    def __init__(self, option: str, value: Any, wanted: str) -> None:
        self.option = option
        self.value = value
        self.wanted = wanted
        super().__init__(f"{option}={value!r} is not possible: {option} is {wanted}.")


class PayloadError(DurableError, ValueError):
    """A value that can not be carried as JSON. `path` leads to it, as in `items[3].price`."""

    def __init__(self, path: str, problem: str, cure: str) -> None:
        self.path = path
        self.problem = problem
        self.cure = cure
        super().__init__(f"{path}: {problem}. {cure}")


class PayloadTooLarge(PayloadError):
    """The encoded value is larger than `MAX_PAYLOAD_BYTES`."""

    def __init__(self, path: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            path,
            f"{size:,} bytes are more than the limit of {limit:,}",
            "Store the data elsewhere and pass its key, or raise DURABLE['MAX_PAYLOAD_BYTES'].",
        )


class KeyInvalid(DurableError, ValueError):
    """A key, signal name or queue name is empty, too long, or not storable text."""

    def __init__(self, what: str, value: Any, problem: str) -> None:
        self.what = what
        self.value = value
        shown = repr(value)
        if len(shown) > 80:
            shown = f"{shown[:60]}…"
        super().__init__(f"{what} {shown}: {problem}.")


class KeyTaken(DurableError):
    """A live workflow of this type already holds the business key; `holder` is its id."""

    def __init__(self, workflow_type: str, key: str, holder: Any) -> None:
        self.workflow_type = workflow_type
        self.key = key
        self.holder = holder
        super().__init__(
            f"The key {key!r} of {workflow_type} is held by workflow {holder}, which is still live. "
            'Use on_conflict="existing" to get a handle of the holder.'
        )


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


class WorkflowNotBlocked(DurableError):
    """Unblock was asked for a workflow that is not blocked."""

    def __init__(self, workflow_id: Any, status: str) -> None:
        self.workflow_id = workflow_id
        self.status = status
        super().__init__(f"Workflow {workflow_id} is not blocked (it is {status}); there is nothing to unblock.")


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


class WorkflowBlocked(DurableError):
    """The workflow's code can not go on behind its history. It is blocked, not failed: a deploy may cure it.

    `data` is what staff are shown, as plain JSON.
    """

    def __init__(self, reason: str, data: dict[str, Any] | None = None) -> None:
        self.reason = reason
        self.data: dict[str, Any] = data or {}
        super().__init__(reason)


class NonDeterminism(WorkflowBlocked):
    """The code asks for something else than its history records.

    `position` is the `seq` of the event in question; `recorded` and `asked` say, in words, what stands there and
    what today's code does instead.
    """

    def __init__(self, *, position: int, recorded: str, asked: str) -> None:
        self.position = position
        self.recorded = recorded
        self.asked = asked
        super().__init__(
            f"Event {position}: the history records {recorded}, the code asks for {asked}.",
            {"position": position, "recorded": recorded, "asked": asked},
        )


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


class TransactionLeftOpen(DurableError):
    """An activity ended while a transaction that it had begun was still open. It was rolled back."""

    def __init__(self, activity: str, aliases: list[str]) -> None:
        self.activity = activity
        self.aliases = aliases
        super().__init__(
            f"{activity} left a transaction open on {', '.join(aliases)}; it was rolled back and the connection closed. "
            "End each transaction inside the activity: use `with transaction.atomic():`."
        )


class RedriveRefused(DurableError):
    """A redrive or discard was refused. `code` is stable; `values` are what it is about."""

    code: ClassVar[str] = "refused"

    def __init__(self, text: str, **values: Any) -> None:
        self.values = values
        super().__init__(text)


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
    """The current lease of the workflow has no such activity."""

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


class StoreUnavailable(RedriveRefused):
    """The database did not answer. `outcome_unknown` says whether something may have been written."""

    code = "store_unavailable"

    def __init__(self, cause: BaseException, *, outcome_unknown: bool) -> None:
        self.cause = cause
        self.outcome_unknown = outcome_unknown
        told = (
            "it is not known whether the change was made; look before you try again"
            if outcome_unknown
            else "nothing was changed"
        )
        super().__init__(
            f"The database could not be reached: {told}.", cause=str(cause), outcome_unknown=outcome_unknown
        )
