"""The turn loop: feeds due messages to workflow code, a batch at a time, and knows whose code is running.

If nothing older may be waiting, its turns also claim what they stage, and pass it to the claim loop.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from django.db import Error as DatabaseFault

from durable.flow.turns import turn
from durable.flow.turns.choosing import LEFT_FOR, Hints
from durable.flow.turns.passed_over import PassedOver
from durable.kernel.replay.cache import Cache
from durable.metrics import counting, series
from durable.outcomes import Claim, Company, TurnReport
from durable.worker.loops.claims import Claims
from durable.worker.loops.notes import Note
from durable.worker.threads.wakeup import Pace

BATCH = 100

NOTE_AGAIN = 5.0
"""Seconds until another try for a note if no place is writable, and between checks whether it still exists."""


class Turns:
    """Takes turns on one thread, which owns the cache of suspended workflows."""

    def __init__(
        self,
        *,
        queues: tuple[str, ...] | None,
        cache: Cache,
        note: Callable[[], Note | None],
        staged: Callable[[], None],
        claims: Claims,
        pace: Pace,
        ready: Callable[[], bool],
        closed: Callable[[int], None] = lambda number: None,
        company: Callable[[], Company] = lambda: Company.ALONE,
    ) -> None:
        self._queues = queues
        self._cache = cache
        self._make_note = note
        self._note: Note | None = None
        self._note_due = 0.0
        self._staged = staged
        self._claims = claims
        self._staged_claims = claims.staged_claims()
        self._pace = pace
        self._ready = ready
        self._closed = closed
        self._company = company
        self.hints = Hints()
        self._aside = PassedOver()
        self._running: tuple[uuid.UUID, float] | None = None

    def hanging(self, seconds: float) -> uuid.UUID | None:
        """The workflow whose code has been running for longer than `seconds`. From any thread."""
        running = self._running
        if running is not None and time.monotonic() - running[1] > seconds:
            return running[0]
        return None

    @property
    def passed_over(self) -> set[uuid.UUID]:
        """Workflows whose turn met another session's lock, and that wait for their next one. From any thread."""
        return self._aside.now()

    def step(self) -> float:
        """Does one batch of turns. Returns the seconds to rest."""
        if not self._ready():
            return 1.0
        if time.monotonic() >= self._note_due:
            self._see_to_the_note()
            self._note_due = time.monotonic() + NOTE_AGAIN
        claimed: Sequence[Claim] = ()
        began = time.monotonic()
        self._claims.offer()
        try:
            report = turn.turn(
                cache=self._cache,
                queues=self._queues,
                limit=BATCH,
                note=self._noted,
                staged_claims=self._staged_claims,
                company=self._company(),
                idle=self._claims.idle,
                hints=self.hints,
                aside=self._aside,
                reads=self._reads,
            )
            claimed = report.claimed
        finally:
            # Deliveries that may have been claimed keep their room until the next step knows: no suspect starts beside
            # them, and no burst ends without them.
            if not self._staged_claims.in_doubt and self._claims.receive(claimed):
                self._staged()
        if report.workflows:
            counting.add(series.TURNS, by=report.workflows)
            counting.observe(series.TURN_SECONDS, time.monotonic() - began)
        if report.closed:
            self._closed(report.closed)
        if report.staged != len(claimed):  # or it is not known: then it returns only what an earlier step has claimed
            self._staged()
        if report.left or report.without_room:
            return min(LEFT_FOR, self._pace.idle())
        return self._pace.idle() if report == TurnReport() else self._pace.worked()

    def close(self) -> None:
        """Evicts every workflow and removes the note. On the turn thread, at its end."""
        committed: Sequence[Claim] = ()
        try:
            committed = turn.claimed_in_doubt(self._staged_claims)
        except DatabaseFault:
            self._claims.lose_sight(self._staged_claims.commit)
        self._claims.receive(committed)
        self._cache.drop_all()
        if self._note is not None:
            self._note.close()

    def _see_to_the_note(self) -> None:
        if self._note is not None and not self._note.is_there:
            self._note.close()
            self._note = None
        if self._note is None:
            self._note = self._make_note()

    def _reads(self, workflow_id: uuid.UUID | None) -> None:
        """Not as running: while the database does not answer, no code hangs."""
        if self._note is not None:
            self._note.write(workflow_id)

    def _noted(self, workflow_id: uuid.UUID | None) -> None:
        self._running = None if workflow_id is None else (workflow_id, time.monotonic())
        if self._note is not None:
            self._note.write(workflow_id)
