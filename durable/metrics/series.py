"""Every series that a worker exports: its name, what it counts, and its labels. `docs/metrics.md` lists the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    """How a series changes, and who knows it."""

    COUNTER = "counter"
    """Only rises. Each process counts its own; those of several are added."""
    HISTOGRAM = "histogram"
    """Seconds by bucket, added likewise."""
    GAUGE = "gauge"
    """The state of each process at this moment, added likewise."""
    ASKED = "asked"
    """A gauge of the whole database, the same whichever worker asks."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series. The name of a counter is shown with `_total` at its end."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The name as Prometheus has it."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name


BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""The upper bounds of a histogram's buckets, in seconds; one without a bound follows."""


def _counter(name: str, text: str, *labels: str) -> Series:
    return Series(f"durable_{name}", Kind.COUNTER, text, labels)


def _histogram(name: str, text: str, *labels: str) -> Series:
    return Series(f"durable_{name}_seconds", Kind.HISTOGRAM, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Series:
    return Series(f"durable_{name}", Kind.GAUGE, text, labels)


def _asked(name: str, text: str, *labels: str) -> Series:
    return Series(f"durable_{name}", Kind.ASKED, text, labels)


ATTEMPTS = _counter("attempts", "Attempts of activities, by what was written of them.", "activity", "result")
ATTEMPT_SECONDS = _histogram("attempt_duration", "How long handlers ran.", "activity")
ACK_RETRIES = _counter("acknowledgement_retries", "Acknowledgements that are tried again.")
LEASE_LOSSES = _counter("lease_losses", "Deliveries whose lease was lost while their handler ran.")
TURNS = _counter("turns", "Turns of workflows that were committed.")
TURN_SECONDS = _histogram("turn_batch_duration", "How long batches of turns took, from the look to the commit.")
REPLAYS = _counter("replays", "Histories that were replayed because their workflow was not in memory.")
CACHE_HITS = _counter("cache_hits", "Workflows that were found in memory for their turn.")
COMMITS = _counter("commits", "Transactions of the engine that were committed.")

BUSY = _gauge("handlers_busy", "Deliveries that run or wait for a slot.")
SLOTS = _gauge("handler_slots", "Handlers that can run at once.")
CACHED = _gauge("cached_workflows", "Suspended workflows in memory.")
PROCESSES = _gauge("worker_processes", "Worker processes that are alive.")

DUE = _asked("due", "Activities that are due, at most 10,000 in all.", "queue")
OLDEST_DUE = _asked("oldest_due_seconds", "For how long the oldest due activity has waited.", "queue")
TURNS_DUE = _asked("turns_due", "Workflows that can run and wait for their turn, at most 10,000 of each kind.", "queue")
OLDEST_TURN = _asked("oldest_turn_due_seconds", "For how long the first of these workflows has waited.", "queue")
OUT = _asked("out", "Deliveries that workers hold, at most 10,000 in all.", "queue")
DEAD_LETTERS = _asked("dead_letters", "Dead letters, the latest 10,000 of them.", "activity", "cause")
BLOCKED = _asked("blocked_workflows", "Blocked workflows, 10,000 at most.")
FAILED = _asked("failed_workflows", "Workflows that failed or timed out within a day, 10,000 at most.")
EXPIRED = _asked("expired_leases", "Deliveries whose lease has expired, not recovered yet, 10,000 at most.")
ASKED_AT = _asked("database_asked_timestamp_seconds", "When the values of the database were read, as Unix time.")

ALL: Final = (
    ATTEMPTS,
    ATTEMPT_SECONDS,
    ACK_RETRIES,
    LEASE_LOSSES,
    TURNS,
    TURN_SECONDS,
    REPLAYS,
    CACHE_HITS,
    COMMITS,
    BUSY,
    SLOTS,
    CACHED,
    PROCESSES,
    DUE,
    OLDEST_DUE,
    TURNS_DUE,
    OLDEST_TURN,
    OUT,
    DEAD_LETTERS,
    BLOCKED,
    FAILED,
    EXPIRED,
    ASKED_AT,
)
"""In the order in which they are exported."""
