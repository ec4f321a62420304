"""What operators do to workflows and dead letters, from Python. The admin and the command line use the same
functions.
"""

from __future__ import annotations

from durable.flow.looks.look import dead_letters as list_dead_letters
from durable.flow.operator.discard import discard, discard_many
from durable.flow.operator.pause import pause
from durable.flow.operator.redrive import preview_redrive, redrive, redrive_many
from durable.flow.operator.resume import resume
from durable.flow.operator.terminate import terminate
from durable.flow.operator.unblock import unblock
from durable.outcomes import (
    DeadLetterFilter,
    DeadLetters,
    Discarded,
    RedriveMode,
    Redriven,
    RedrivePreview,
    RowSnapshot,
)

__all__ = [
    "DeadLetterFilter",
    "DeadLetters",
    "Discarded",
    "RedriveMode",
    "RedrivePreview",
    "Redriven",
    "RowSnapshot",
    "discard",
    "discard_many",
    "list_dead_letters",
    "pause",
    "preview_redrive",
    "redrive",
    "redrive_many",
    "resume",
    "terminate",
    "unblock",
]
