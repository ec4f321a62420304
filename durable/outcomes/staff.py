"""What operators do, and what they do it through, as the audit names it."""

from __future__ import annotations

from enum import StrEnum


class StaffVerb(StrEnum):
    """What was done. The values are stored."""

    START = "start"
    REDRIVE = "redrive"
    DISCARD = "discard"
    SIGNAL = "signal"
    CANCEL = "cancel"
    TERMINATE = "terminate"
    PAUSE = "pause"
    RESUME = "resume"
    UNBLOCK = "unblock"
    VIEW = "view"


class Through(StrEnum):
    """Where it was asked for. The values are stored."""

    ADMIN = "admin"
    COMMAND = "command"
    OPERATIONS = "operations"
