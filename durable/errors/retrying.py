"""Raised by activities: how this error of theirs is retried, whatever their retry policy says."""

from __future__ import annotations

from datetime import datetime, timedelta

from durable.errors.root import DurableError
from durable.errors.usage import OptionInvalid


class NoRetry(DurableError):
    """Raise it in an activity that must not be tried again: it fails for good, however many attempts are left.

    `message` is for people. Derive errors of your own from it where callers have to tell them apart.
    """

    def __init__(self, message: str = "This must not be tried again.") -> None:
        self.message = message
        super().__init__(message)


class RetryAfter(DurableError):
    """Raise it in an activity to have it tried again after a timedelta, or at an aware datetime.

    The attempt has failed and counts; if it was the last one, the activity fails. The wait is exactly this one, without
    the policy's `cap` and `jitter`; a moment that has passed means at once. `message` is for people. Raises
    `OptionInvalid` for anything else than a timedelta or an aware datetime.
    """

    def __init__(self, when: timedelta | datetime, message: str = "") -> None:
        is_moment = isinstance(when, datetime) and when.utcoffset() is not None
        if not is_moment and not isinstance(when, timedelta):
            raise OptionInvalid("when", when, "a timedelta, or an aware datetime (one with a time zone)")
        self.when = when
        self.message = message
        waits = f"in {when}" if isinstance(when, timedelta) else f"at {when.isoformat()}"
        super().__init__(message or f"To be tried again {waits}.")

    def wait(self, now: datetime) -> timedelta:
        """How long to wait from `now` on; zero for a moment that has passed."""
        wait = self.when if isinstance(self.when, timedelta) else self.when - now
        return max(wait, timedelta())
