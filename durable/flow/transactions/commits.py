"""Whether a change has been committed, even after a commit with unknown outcome. No `atomic` in here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.outbound import Departure
from durable.outcomes import Claim
from durable.store.deliveries import claims

Made = TypeVar("Made")


class Commit(Generic[Made]):
    """A change that can recognise its own commit, so that it is made once, however often it is tried.

    What it writes carries an id that was chosen before the first try; `look` finds it, and first takes the same locks
    as the change: a server that has lost its client may still be committing.
    """

    def __init__(self, look: Callable[[BaseDatabaseWrapper], Made | None]) -> None:
        self.look = look
        self.in_doubt = False
        """Whether a try ended with an unknown outcome and may have been committed."""

    def sent(self) -> None:
        """The transaction has written everything. An error before this has rolled it back; a later one may not have."""
        self.in_doubt = True

    def confirmed(self) -> None:
        """The outcome of the last try is known."""
        self.in_doubt = False

    def made(self, connection: BaseDatabaseWrapper) -> Made | None:
        """What a try with an unknown commit has made; None if nothing was made. Does not query if there is no doubt;
        after finding nothing, nothing is in doubt.
        """
        if not self.in_doubt:
            return None
        made = self.look(connection)
        if made is None:
            self.in_doubt = False
        return made

    def keep(self, unsaid: Sequence[Departure]) -> None:
        """A try has failed; these are its lines and signals. They are dropped, except those of acknowledgements in
        doubt (ADR 014).
        """


class ClaimCommit(Commit[list[Claim]]):
    """The commit of a claim, whose deliveries are found by their token. The look takes no locks, so finding nothing
    proves nothing: the doubt ends when the caller says `confirmed`.
    """

    def __init__(self, worker: str) -> None:
        self.token = token = uuid.uuid4()
        super().__init__(lambda connection: claims.made_under(connection, token, worker) or None)

    def made(self, connection: BaseDatabaseWrapper) -> list[Claim] | None:
        """What a try with an unknown commit has claimed and is still out; None if nothing is there yet."""
        return self.look(connection) if self.in_doubt else None
