"""Durable execution for Django: what you need to write workflows and to start them.

Safe to import before apps are loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.errors import (
    CODE_ERRORS,
    ActivityError,
    AlreadyRegistered,
    ArgumentsMismatch,
    ChildCancelled,
    ChildError,
    ChildFailed,
    ChildTimedOut,
    CodeRaised,
    ConfigurationError,
    DurableError,
    EncryptionKeyUnknown,
    HistoryFull,
    InsideTransaction,
    InsideWorkflow,
    KeyInvalid,
    KeyTaken,
    MailboxFull,
    NewerEngine,
    NobodyListens,
    NonDeterminism,
    NoRetry,
    NotRegistered,
    OptionInvalid,
    OutsideActivity,
    OutsideWorkflow,
    PayloadError,
    PayloadMoved,
    PayloadNotEncrypted,
    PayloadTooLarge,
    ResultError,
    RetryAfter,
    SignalUnreadable,
    UsageError,
    WorkflowBlocked,
    WorkflowCancelled,
    WorkflowClosed,
    WorkflowFailed,
    WorkflowNotBlocked,
    WorkflowNotFound,
    WorkflowTimedOut,
)
from durable.kernel.context.activity_context import activity_info
from durable.kernel.context.children import Child, cancel_workflow, open_children, signal_workflow
from durable.kernel.context.workflow_context import (
    logger,
    now,
    patched,
    random,
    rng,
    sleep,
    uuid4,
    wait_for_signal,
    workflow_info,
)
from durable.kernel.definitions.retry import Retry
from durable.kernel.payloads.secrets import Secret
from durable.outcomes import CancelAnswer, CancelOutcome, WorkflowStatus

if TYPE_CHECKING:
    from durable.client.find import get_workflow
    from durable.client.handle import Handle

__version__ = "0.1.0.dev0"

__all__ = [
    "CODE_ERRORS",
    "ActivityError",
    "AlreadyRegistered",
    "ArgumentsMismatch",
    "CancelAnswer",
    "CancelOutcome",
    "Child",
    "ChildCancelled",
    "ChildError",
    "ChildFailed",
    "ChildTimedOut",
    "CodeRaised",
    "ConfigurationError",
    "DurableError",
    "EncryptionKeyUnknown",
    "Handle",
    "HistoryFull",
    "InsideTransaction",
    "InsideWorkflow",
    "KeyInvalid",
    "KeyTaken",
    "MailboxFull",
    "NewerEngine",
    "NoRetry",
    "NobodyListens",
    "NonDeterminism",
    "NotRegistered",
    "OptionInvalid",
    "OutsideActivity",
    "OutsideWorkflow",
    "PayloadError",
    "PayloadMoved",
    "PayloadNotEncrypted",
    "PayloadTooLarge",
    "ResultError",
    "Retry",
    "RetryAfter",
    "Secret",
    "SignalUnreadable",
    "UsageError",
    "WorkflowBlocked",
    "WorkflowCancelled",
    "WorkflowClosed",
    "WorkflowFailed",
    "WorkflowNotBlocked",
    "WorkflowNotFound",
    "WorkflowStatus",
    "WorkflowTimedOut",
    "__version__",
    "activity",
    "activity_info",
    "cancel_workflow",
    "get_workflow",
    "logger",
    "now",
    "open_children",
    "patched",
    "random",
    "rng",
    "signal_workflow",
    "sleep",
    "uuid4",
    "wait_for_signal",
    "workflow",
    "workflow_info",
]

_CLIENT = {"get_workflow": "durable.client.find", "Handle": "durable.client.handle"}


def __getattr__(name: str) -> Any:
    # The client needs Django's models, and `import durable` has to work before they are loaded.
    if name in _CLIENT:
        from importlib import import_module

        return getattr(import_module(_CLIENT[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_CLIENT))
