"""How far a history may grow, and the room that is reserved for its end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from durable.errors import HistoryFull
from durable.kernel.texts.failure import type_name

FULL: Final = "The history is full: "
"""How the reason of a block begins whose only cause is the length of the history."""

HISTORY_FULL: Final = type_name(HistoryFull)
"""The class of such a block, as it is stored."""


@dataclass(frozen=True)
class Room:
    """The limits of one history, in events and in bytes.

    Senders must not use up the room that the code needs for itself: the last tenth takes no signals. Beyond the limits
    there is as much room again for a workflow that was asked to cancel, so that it can clean up; there is always room
    for the event that closes a workflow.
    """

    max_events: int
    max_bytes: int

    def accepts_signals(self, events: int, size: int) -> bool:
        """Whether one more signal may be recorded."""
        return events < self.signal_events and size < self.signal_bytes

    def goes_on(self, events: int, size: int, *, cancelling: bool) -> bool:
        """Whether anything else may be recorded."""
        if cancelling:
            return events < self.last_event and size < self.last_byte
        return events < self.max_events and size < self.max_bytes

    @cached_property
    def signal_events(self) -> int:
        """From this many events on, there is no room for signals."""
        return self.max_events - self.max_events // 10

    @cached_property
    def signal_bytes(self) -> int:
        """From this many bytes on, there is no room for signals."""
        return self.max_bytes - self.max_bytes // 10

    @cached_property
    def last_event(self) -> int:
        """The absolute maximum of events, not counting the one that closes the workflow."""
        return self.max_events * 2 + 100

    @cached_property
    def last_byte(self) -> int:
        """From this many bytes on, no turn begins."""
        return self.max_bytes * 2 + 100_000

    def words(self, events: int, size: int) -> str:
        """Why the workflow is blocked."""
        if events >= self.max_events:
            return f"{FULL}it has reached MAX_HISTORY_EVENTS ({self.max_events:,} events)."
        return f"{FULL}it has reached MAX_HISTORY_BYTES ({size:,} of {self.max_bytes:,} bytes)."

    def words_for_signals(self, events: int, size: int) -> str:
        """Why the workflow is blocked if it waits only for signals."""
        return (
            f"{FULL}its code waits for a signal, and there is no room for one more: {events:,} events (at most "
            f"{self.signal_events:,}; MAX_HISTORY_EVENTS less a tenth) of {size:,} bytes (at most "
            f"{self.signal_bytes:,}; MAX_HISTORY_BYTES less a tenth)."
        )
