"""What operators do to workflows and dead letters, from Python. The admin and the command line use the same
functions.
"""

from __future__ import annotations

from durable.flow.discard import discard, discard_many
from durable.flow.look import dead_letters as list_dead_letters
from durable.flow.pause import pause
from durable.flow.redrive import preview_redrive, redrive, redrive_many
from durable.flow.resume import resume
from durable.flow.terminate import terminate
from durable.flow.unblock import unblock
from durable.outcomes import DeadLetterFilter, DeadLetters, Discarded, RedriveMode, Redriven, RedrivePreview

__all__ = [
    "DeadLetterFilter",
    "DeadLetters",
    "Discarded",
    "RedriveMode",
    "RedrivePreview",
    "Redriven",
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
