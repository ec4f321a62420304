"""Claims, in a turn, what the turn itself stages, for a process that can run it at once. No `atomic` in here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.transactions.commits import ClaimCommit
from durable.flow.turns.plan import Plan
from durable.flow.turns.room import Room
from durable.outcomes import Claim
from durable.store.deliveries import staging
from durable.store.deliveries.staging import NewRow


class StagedClaims:
    """What a process claims of the rows that its turns stage; never one of a queue in `but`.

    `room` has to be closed while rows that were due before may be waiting, or suspects are. The token is fixed for all
    tries of one call, and is kept for the next call when it is not known what became of the last try.
    """

    def __init__(
        self,
        *,
        worker: str,
        queues: tuple[str, ...] | None,
        lease_for: timedelta,
        room: Room,
        but: tuple[str, ...] = (),
    ) -> None:
        self._worker = worker
        self._queues = queues
        self._but = frozenset(but)
        self._lease_for = lease_for
        self.room = room
        self.commit = ClaimCommit(worker)

    @property
    def in_doubt(self) -> bool:
        """Whether a commit with unknown outcome may have claimed rows."""
        return self.commit.in_doubt

    def found(self, connection: BaseDatabaseWrapper) -> list[Claim]:
        """What an earlier try with unknown commit has claimed. Does not query if there is no doubt."""
        if not self.in_doubt:
            return []
        committed = self.commit.made(connection)
        self.confirmed()
        return committed or []

    def stage(self, connection: BaseDatabaseWrapper, plans: Sequence[Plan]) -> list[Claim]:
        """Stages the rows of some (locked) workflows' turns: as deliveries while there is room, the rest as pending."""
        claimed, rest = self._divided(plans)
        staging.stage(connection, rest)
        if not claimed:
            return []
        return staging.stage_claimed(
            connection, claimed, token=self.commit.token, worker=self._worker, lease_for=self._lease_for
        )

    def about_to_commit(self) -> None:
        """The transaction has written everything. An error before this has rolled it back; a later one may not have."""
        self.commit.sent()

    def confirmed(self) -> None:
        """The transaction has committed, and what it claimed is known."""
        self.commit = ClaimCommit(self._worker)

    def _divided(self, plans: Sequence[Plan]) -> tuple[list[NewRow], list[NewRow]]:
        """The rows that are claimed, in claim order (higher priority first), and the others. What the same turn cancels
        is not claimed.
        """
        wanted: list[NewRow] = []
        rest: list[NewRow] = []
        for plan in plans:
            for row in plan.rows:
                runs = plan.closing is None and row.ordinal not in plan.cancelled
                mine = row.queue not in self._but and (self._queues is None or row.queue in self._queues)
                (wanted if runs and mine else rest).append(row)
        if not wanted:
            return [], rest
        room = self.room.reserve()
        wanted.sort(key=lambda row: -row.priority)
        return wanted[:room], wanted[room:] + rest
