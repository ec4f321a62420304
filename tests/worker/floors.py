"""A claim loop with all that it asks, made by hand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from durable.flow.delivery import claim as claiming
from durable.flow.delivery import release as releasing
from durable.outcomes import Claim, GiveBack
from durable.worker.handlers.delivery import Delivery
from durable.worker.loops import claims as claims_module
from durable.worker.loops.claims import Claims
from durable.worker.loops.leases import Leases
from durable.worker.threads.wakeup import Pace, Wake


class Slots:
    """Handlers that run until the test says they have ended."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.ahead = 0
        self.running: list[Delivery] = []
        self.queued: list[Delivery] = []

    @property
    def free(self) -> int:
        return self.size + self.ahead - self.busy

    @property
    def busy(self) -> int:
        return len(self.running) + len(self.queued)

    @property
    def waiting(self) -> int:
        return len(self.queued)

    def dispatch(self, delivery: Delivery) -> None:
        (self.running if len(self.running) < self.size else self.queued).append(delivery)

    def withdraw(self) -> list[Delivery]:
        taken, self.queued = self.queued, []
        return taken


class Floor:
    """A claim loop's step with a queue of ordinary rows and one of suspects; time moves as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, slots: int = 3) -> None:
        self.ordinary, self.suspects = list[Claim](), list[Claim]()
        self.now = 1000.0
        self.limits: list[int] = []
        self.slots = Slots(slots)
        self.leases = Leases(lease_for=timedelta(seconds=60), idle=Wake())
        self.ready = threading.Event()
        self.ready.set()
        monkeypatch.setattr(claiming, "claim", self._claim)
        monkeypatch.setattr(claiming, "claim_suspect", self._claim_suspect)
        monkeypatch.setattr(claiming, "suspects_due", lambda queues, but=(): len(self.suspects))
        monkeypatch.setattr(releasing, "release", self._release)
        self.released: list[int] = []
        monkeypatch.setattr(claims_module.time, "monotonic", lambda: self.now)  # type: ignore[attr-defined]
        handlers: Any = self.slots
        self.claims = Claims(
            worker="here",
            queues=None,
            lease_for=timedelta(seconds=60),
            handlers=handlers,
            leases=self.leases,
            pace=Pace(timedelta(seconds=1)),
            ready=self.ready,
            hungry=self._hunger,
        )
        self.hungry = 0

    def _hunger(self) -> None:
        self.hungry += 1

    def _claim(self, *, limit: int, **rest: Any) -> list[Claim]:
        self.limits.append(limit)
        taken, self.ordinary = self.ordinary[:limit], self.ordinary[limit:]
        return taken

    def _release(self, claims: Sequence[Claim]) -> list[GiveBack]:
        self.released += [given.row_id for given in claims]
        return [GiveBack.PENDING] * len(claims)

    def _claim_suspect(self, **rest: Any) -> list[Claim]:
        taken, self.suspects = self.suspects[:1], self.suspects[1:]
        return taken

    def look(self) -> None:
        """Find nothing due, of either kind."""
        self.claims.step()
        self.claims.step()

    def reserve(self) -> int:
        """A turn begins, and comes to its rows."""
        self.claims.offer()
        return self.claims.staged_claims().room.reserve()

    def end(self, *row_ids: int) -> None:
        """These handlers end, and their acknowledgements are written."""
        for delivery in [d for d in self.slots.running if d.claim.row_id in row_ids]:
            self.slots.running.remove(delivery)
            self.leases.end(delivery)

    def running(self) -> list[int]:
        return [delivery.claim.row_id for delivery in self.slots.running]
