"""What a worker process has acknowledged so far."""

from __future__ import annotations

from dataclasses import dataclass

from durable.outcomes import Cancelled, Completed, Failed, RetryLater
from durable.worker.handlers.execute import Committed, Outcome


@dataclass(slots=True)
class Tally:
    """What this process has done so far: only what was acknowledged counts. For people."""

    done: int = 0
    failed: int = 0
    retried: int = 0
    closed: int = 0
    """Workflows that ended in a turn here; single activities end with their acknowledgement."""

    def count(self, acknowledged: Outcome | None) -> str:
        """Counts an outcome, None if it was not acknowledged; returns the word by which metrics count it."""
        match acknowledged:
            case Completed() | Committed():
                self.done += 1
                return "completed"
            case Failed():
                self.failed += 1
                return "failed"
            case RetryLater():
                self.retried += 1
                return "retried"
            case Cancelled():
                return "cancelled"
            case _:
                return "not_acknowledged"
