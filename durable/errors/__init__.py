"""Everything that `durable` raises.

::

    DurableError
    ├── ConfigurationError             a setting or a registration is wrong
    │   ├── NotRegistered              no such workflow or activity in this process
    │   └── AlreadyRegistered          two functions claim one name
    ├── UsageError                     a call in a place where it cannot work
    │   ├── OutsideWorkflow            a durable call made outside a workflow's own turn
    │   ├── OutsideActivity            a call that only a running activity can make
    │   ├── InsideWorkflow             a plain call made inside workflow code
    │   ├── InsideTransaction          waiting for a result that only a commit can bring
    │   ├── NobodyListens              a signal to a single activity
    │   ├── ArgumentsMismatch          arguments that do not fit the handler's signature
    │   └── OptionInvalid              an option of a call that cannot be meant
    ├── PayloadError                   a value that JSON cannot carry
    │   ├── PayloadTooLarge
    │   ├── PayloadNotEncrypted        stored in plain, where the codec reads encrypted ones only
    │   ├── EncryptionKeyUnknown       encrypted under a key that is not here
    │   └── PayloadMoved               encrypted for another place, or changed
    ├── KeyInvalid                     a key, name or queue that is empty, too long or not text
    ├── KeyTaken                       a live workflow already holds the business key
    ├── WorkflowNotFound
    ├── WorkflowClosed                 the verb needs a live workflow
    ├── MailboxFull                    a signal to a workflow that has no room for it
    ├── WorkflowNotBlocked             unblock on a workflow that is not blocked
    ├── ResultError                    what `result()` raises for a workflow that did not complete
    │   ├── WorkflowFailed
    │   ├── WorkflowCancelled
    │   └── WorkflowTimedOut
    ├── ActivityError                  raised in workflow code: the activity failed for good
    ├── ChildError                     raised in workflow code: the child ended without a result
    │   ├── ChildFailed
    │   ├── ChildCancelled
    │   └── ChildTimedOut
    ├── NoRetry                        raised by an activity that must not be tried again
    ├── RetryAfter                     raised by an activity: when to try it again
    ├── SignalUnreadable               raised in workflow code: a signal is not of the type asked for
    ├── WorkflowBlocked                the code does not fit this history, or cannot go on
    │   ├── NonDeterminism
    │   ├── NewerEngine                a newer version of durable wrote what this one does not know
    │   ├── CodeRaised                 the code has a bug: it raised one of its `blocks_on`
    │   ├── HistoryFull                the history is as long as it may become
    │   └── StackExhausted
    ├── PoisonTurn                     a turn used more CPU time than it may
    ├── TokenMissing                   the delivery belongs to somebody else by now
    ├── TransactionLeftOpen            an activity ended inside a transaction that it had begun
    ├── TransactionSpoilt              a transactional activity left nothing that could be committed
    ├── RedriveRefused                 an operator's verb was refused
    │   ├── TransactionOpen            transaction_open
    │   ├── WorkflowTerminal           workflow_terminal
    │   ├── HistoryRecordsOutcome      history_records_outcome
    │   ├── RowNotFound                row_not_found
    │   ├── NotDeadLettered            not_dead_lettered
    │   │   └── AlreadyDone            already_done
    │   ├── AlreadyJudged              already_judged
    │   ├── RowUnreadable              row_unreadable
    │   └── StoreUnavailable           store_unavailable

Each class takes the values it is about and builds its own sentence; the values stay readable as attributes.
"""

from __future__ import annotations

from durable.errors.bugs import CODE_ERRORS
from durable.errors.refusals import (
    AlreadyDone,
    AlreadyJudged,
    HistoryRecordsOutcome,
    NotDeadLettered,
    RedriveRefused,
    RowNotFound,
    RowUnreadable,
    StoreUnavailable,
    TransactionOpen,
    WorkflowTerminal,
)
from durable.errors.retrying import NoRetry, RetryAfter
from durable.errors.root import DurableError
from durable.errors.usage import (
    AlreadyRegistered,
    ArgumentsMismatch,
    ConfigurationError,
    EncryptionKeyUnknown,
    InsideTransaction,
    InsideWorkflow,
    KeyInvalid,
    KeyTaken,
    NobodyListens,
    NotRegistered,
    OptionInvalid,
    OutsideActivity,
    OutsideWorkflow,
    PayloadError,
    PayloadMoved,
    PayloadNotEncrypted,
    PayloadTooLarge,
    TransactionLeftOpen,
    TransactionSpoilt,
    UsageError,
)
from durable.errors.workflows import (
    ActivityError,
    ChildCancelled,
    ChildError,
    ChildFailed,
    ChildTimedOut,
    CodeRaised,
    HistoryFull,
    MailboxFull,
    NewerEngine,
    NonDeterminism,
    PoisonTurn,
    ResultError,
    SignalUnreadable,
    StackExhausted,
    TokenMissing,
    WorkflowBlocked,
    WorkflowCancelled,
    WorkflowClosed,
    WorkflowFailed,
    WorkflowNotBlocked,
    WorkflowNotFound,
    WorkflowTimedOut,
)

__all__ = [
    "CODE_ERRORS",
    "ActivityError",
    "AlreadyDone",
    "AlreadyJudged",
    "AlreadyRegistered",
    "ArgumentsMismatch",
    "ChildCancelled",
    "ChildError",
    "ChildFailed",
    "ChildTimedOut",
    "CodeRaised",
    "ConfigurationError",
    "DurableError",
    "EncryptionKeyUnknown",
    "HistoryFull",
    "HistoryRecordsOutcome",
    "InsideTransaction",
    "InsideWorkflow",
    "KeyInvalid",
    "KeyTaken",
    "MailboxFull",
    "NewerEngine",
    "NoRetry",
    "NobodyListens",
    "NonDeterminism",
    "NotDeadLettered",
    "NotRegistered",
    "OptionInvalid",
    "OutsideActivity",
    "OutsideWorkflow",
    "PayloadError",
    "PayloadMoved",
    "PayloadNotEncrypted",
    "PayloadTooLarge",
    "PoisonTurn",
    "RedriveRefused",
    "ResultError",
    "RetryAfter",
    "RowNotFound",
    "RowUnreadable",
    "SignalUnreadable",
    "StackExhausted",
    "StoreUnavailable",
    "TokenMissing",
    "TransactionLeftOpen",
    "TransactionOpen",
    "TransactionSpoilt",
    "UsageError",
    "WorkflowBlocked",
    "WorkflowCancelled",
    "WorkflowClosed",
    "WorkflowFailed",
    "WorkflowNotBlocked",
    "WorkflowNotFound",
    "WorkflowTerminal",
    "WorkflowTimedOut",
]

# Stored failures, retry policies and tracebacks name errors by where people import them from.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
